import { BlockstepError, show } from '../../base/errors.js';
import type { StepOutputs } from '../../scheduler/plan/step-outputs.js';
import type { Request } from '../../scheduler/request/request.js';
import { FinishCode, finishReasonOf } from '../../scheduler/request/status.js';
import type { EngineState } from '../state/engine-state.js';
import type { EndReason } from '../streams/outputs.js';
import type { StreamBuffer } from '../streams/stream-buffer.js';

/** What readers are told of a request that ended with `error`. */
export type FailureOf = (request: Request) => BlockstepError;

/** It was not the executor: a wait took too long, or a grammar failed. */
export const schedulerFailure: FailureOf = ({ id, failure }) =>
  new BlockstepError('ERR_BLOCKSTEP_REQUEST', `request ${show(id)} ${failure ?? 'ended with an error'}`);

/**
 * Hands the rows of an update to their streams. Readers that wait are woken, each at most once; for the others their tokens
 * are kept and nothing is allocated.
 * @param extras what came with the tokens of `outputs`, one for each; null = nothing
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
 * Ends the streams of requests that ended without a row: whoever did that went to the scheduler behind the engine's back.
 * Without this their readers would wait for ever.
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
