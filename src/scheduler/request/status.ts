import { checkInteger } from '../../base/errors.js';

/**
 * Statuses of a request, in vLLM's names (`vllm.v1.request.RequestStatus`), but for the last: why a request ended is said by
 * `Request.finishReason`, in one style everywhere.
 * A status says what a request waits for; which container holds it is said by `Request.container` alone.
 */
export type RequestStatus =
  | 'WAITING'
  | 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR'
  | 'WAITING_FOR_REMOTE_KVS'
  | 'WAITING_FOR_STREAMING_REQ'
  | 'RUNNING'
  | 'PREEMPTED'
  | 'FINISHED';

/**
 * Why a request ended, in vLLM's words: its client meets these everywhere that one request is spoken of. `stop`: an end of text, a
 * stop token or its client. `length`: `maxTokens` or the model's length. `abort`: somebody ended it early. `error`: it failed;
 * a stream of an engine rejects instead.
 */
export type FinishReason = 'stop' | 'length' | 'abort' | 'error';

/** The same as small integers, for columns of typed arrays alone: `StepOutputs.finishReasons`. `finishReasonOf` names them. */
export const FinishCode = { none: 0, stop: 1, length: 2, abort: 3, error: 4 } as const;
export type FinishCode = (typeof FinishCode)[keyof typeof FinishCode];

const REASONS: readonly (FinishReason | null)[] = [null, 'stop', 'length', 'abort', 'error'];

/** The finish reason that a code stands for; null for 0: it goes on. @throws ERR_BLOCKSTEP_BAD_ARG */
export function finishReasonOf(code: number): FinishReason | null {
  return REASONS[checkInteger('code', code, 0, REASONS.length - 1)];
}

/** Statuses that keep a request out of admission until something else happens. */
export function isBlocked(status: RequestStatus): boolean {
  return (
    status === 'WAITING_FOR_REMOTE_KVS' ||
    status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' ||
    status === 'WAITING_FOR_STREAMING_REQ'
  );
}
