import { BlockstepError, show } from '../../base/errors.js';
import type { StepOutputs } from '../../scheduler/plan/step-outputs.js';
import type { Request } from '../../scheduler/request/request.js';
import { FinishCode, finishReasonOf } from '../../scheduler/request/status.js';
import type { EngineState } from '../state/engine-state.js';
import type { EndReason } from '../streams/outputs.js';
import type { StreamBuffer } from '../streams/stream-buffer.js';

/** Makes the error with which the readers of a failed request are rejected. */
export type FailureOf = (request: Request) => BlockstepError;

/** The error of a request that the scheduler failed: a wait took too long, or a grammar failed. */
export const schedulerFailure: FailureOf = ({ id, failure }) =>
  new BlockstepError('ERR_BLOCKSTEP_REQUEST', `request ${show(id)} ${failure ?? 'ended with an error'}`);

/**
 * Hands the rows of an update to their streams, and wakes each waiting reader at most once. Tokens without a waiting reader are kept in
 * the stream, and nothing is allocated for them.
 * @param extras one value per token of `outputs.tokens`, at the same index; null = none
 */
export function publish(
  e: EngineState,
  outputs: StepOutputs,
  failureOf = schedulerFailure,
  extras: readonly unknown[] | null = null,
): void {
  const { requests, tokens, tokenOffsets, tokenCounts, finishReasons, continues, length } = outputs;
  for (let row = 0; row < length; row++) {
    const request = requests[row];
    const stream = e.streams.of(request);
    if (stream === undefined) continue;
    stream.append(tokens, tokenOffsets[row], tokenCounts[row], extras);
    if (stream.isAwaited) e.counters.wakes++;
    const reason = finishReasons[row] as FinishCode;
    if (reason !== FinishCode.none) {
      if (continues[row] === 0) {
        endStream(e, stream, reason, failureOf);
        continue;
      }
      stream.endAnswer(finishReasonOf(reason) as EndReason);
    }
    if (stream.isAwaited) stream.wake();
  }
}

/**
 * Ends the streams of requests that ended without a row of outputs, because a caller ended them by the scheduler directly. Their
 * readers would wait for ever.
 */
export function sweepStreams(e: EngineState): void {
  if (e.streams.size === 0) return;
  for (const stream of [...e.streams]) {
    const { request } = stream;
    if (request.isFinished) endStream(e, stream, request.finishCode, schedulerFailure);
  }
}

function endStream(e: EngineState, stream: StreamBuffer, reason: FinishCode, failureOf: FailureOf): void {
  e.streams.remove(stream);
  const { request } = stream;
  if (reason === FinishCode.error) {
    if (request.failure === null) e.counters.failedRequests++;
    stream.fail(failureOf(request), request.finishedAt);
  } else stream.end(finishReasonOf(reason) as EndReason, request.finishedAt);
}
