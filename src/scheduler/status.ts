import { checkInteger } from '../core/errors.js';

/**
 * Statuses of a request, in vLLM's names (`vllm.v1.request.RequestStatus`).
 * A status says what a request waits for; which container holds it is said by `Request.container` alone.
 */
export type RequestStatus =
  | 'WAITING'
  | 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR'
  | 'WAITING_FOR_REMOTE_KVS'
  | 'WAITING_FOR_STREAMING_REQ'
  | 'RUNNING'
  | 'PREEMPTED'
  | 'FINISHED_STOPPED'
  | 'FINISHED_LENGTH_CAPPED'
  | 'FINISHED_ABORTED'
  | 'FINISHED_ERROR';

/** Why a request ended, as the small integers that stand in `StepOutputs.finishReasons`. */
export const FinishReason = { none: 0, stop: 1, length: 2, abort: 3, error: 4 } as const;
export type FinishReason = (typeof FinishReason)[keyof typeof FinishReason];

const FINISHED_STATUS: readonly RequestStatus[] = [
  'WAITING',
  'FINISHED_STOPPED',
  'FINISHED_LENGTH_CAPPED',
  'FINISHED_ABORTED',
  'FINISHED_ERROR',
];

const REASON_NAME = ['none', 'stop', 'length', 'abort', 'error'] as const;

/** The status a request ends with, given its reason (not `none`). */
export function finishedStatus(reason: FinishReason): RequestStatus {
  return FINISHED_STATUS[reason];
}

/** vLLM's word for a finish reason; `none` while the request lives. @throws ERR_BLOCKSTEP_BAD_ARG */
export function finishReasonName(reason: number): (typeof REASON_NAME)[number] {
  return REASON_NAME[checkInteger('reason', reason, 0, REASON_NAME.length - 1)];
}

/** Statuses that keep a request out of admission until something else happens. */
export function isBlocked(status: RequestStatus): boolean {
  return (
    status === 'WAITING_FOR_REMOTE_KVS' ||
    status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' ||
    status === 'WAITING_FOR_STREAMING_REQ'
  );
}
