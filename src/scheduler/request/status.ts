import { checkInteger } from '../../base/errors.js';

/**
 * Status of a request, under vLLM's names (`vllm.v1.request.RequestStatus`), except that there is
 * one status for all that have finished: `Request.finishReason` gives the reason. A status tells
 * which event a request waits for. Only
 * `Request.container` tells which container holds the request. WAITING_FOR_CHUNK belongs to
 * borrowing adapters (`BorrowingAdapter`), as in vllm-omni; the scheduler itself never writes it.
 */
export type RequestStatus =
  | 'WAITING'
  | 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR'
  | 'WAITING_FOR_REMOTE_KVS'
  | 'WAITING_FOR_STREAMING_REQ'
  | 'WAITING_FOR_CHUNK'
  | 'RUNNING'
  | 'PREEMPTED'
  | 'FINISHED';

/**
 * Why a request ended, in vLLM's words, which clients see. `stop`: an end of text, a stop token, or
 * the client. `length`: `maxTokens` or the model's length. `abort`: the request was ended early.
 * `error`: it failed; the stream of an engine rejects instead.
 */
export type FinishReason = 'stop' | 'length' | 'abort' | 'error';

/**
 * Finish reasons as small integers, for columns of typed arrays (`StepOutputs.finishReasons`). `finishReasonOf` names
 * a code.
 */
export const FinishCode = {
  /** The request continues. */
  none: 0,
  /** A generated token ended the request: `eosTokenId`, or one of `stopTokenIds`. */
  stop: 1,
  /** The request has `maxTokens` tokens, or fills the model's length or the pool. */
  length: 2,
  /** The client, or the caller that drives the scheduler, ended the request early. */
  abort: 3,
  /** The request failed: by the executor, a load, its connector, its grammar, or a deadline. */
  error: 4,
} as const;
export type FinishCode = (typeof FinishCode)[keyof typeof FinishCode];

const REASONS: readonly (FinishReason | null)[] = [null, 'stop', 'length', 'abort', 'error'];

/**
 * The finish reason that a code stands for; null for 0, which means that the request goes on. @throws
 * ERR_BLOCKSTEP_BAD_ARG
 */
export function finishReasonOf(code: number): FinishReason | null {
  return REASONS[checkInteger('code', code, 0, REASONS.length - 1)];
}

/**
 * The container that holds an unfinished request; null for a request that has finished. `lent`: a borrowing adapter has
 * taken it out while a step is planned.
 */
export type Container = 'waiting' | 'skipped' | 'running' | 'lent' | null;

/** Whether a request with this status cannot be admitted until an external event happens. */
export function isBlocked(status: RequestStatus): boolean {
  return (
    status === 'WAITING_FOR_REMOTE_KVS' ||
    status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' ||
    status === 'WAITING_FOR_STREAMING_REQ'
  );
}
