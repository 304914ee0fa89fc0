import { BlockstepError, show } from '../../base/errors.js';
import type { StepOutputs } from '../../scheduler/plan/step-outputs.js';
import type { Request } from '../../scheduler/request/request.js';
import { FinishCode, finishReasonOf } from '../../scheduler/request/status.js';
import type { EndReason } from '../outputs/outputs.js';
import type { EngineState } from '../state/engine-state.js';
import type { StreamBuffer } from '../streams/stream-buffer.js';

/** Makes the error with which the readers of a failed request are rejected. */
export type FailureOf = (request: Request) => BlockstepError;

/**
 * The error of a request that the scheduler failed, because a wait took too long or a grammar
 * failed.
 */
export const schedulerFailure: FailureOf = ({ id, failure }) =>
  new BlockstepError('ERR_BLOCKSTEP_REQUEST', `request ${show(id)} ${failure ?? 'ended with an error'}`);

/**
 * Distributes the rows of an update to their streams, wakes each waiting reader at most once, and
 * notifies the readers of all outputs. A row with one token and no end, for a stream that nobody
 * waits for, costs a copy of its token (`RecentTokens`).
 * @param extras one value per token of `outputs.tokens`, at the same index; null = none
 */
export function publish(
  e: EngineState,
  outputs: StepOutputs,
  failureOf = schedulerFailure,
  extras: readonly unknown[] | null = null,
): void {
  const { streams } = e;
  const { totals } = streams;
  const { recent } = totals;
  if (extras !== null) {
    for (let row = 0; row < outputs.length; row++) publishRow(e, outputs, row, failureOf, extras);
  } else if (outputs.length > 0) {
    totals.bufferedTokens += recent.write(outputs, streams);
    for (const feed of totals.feeds) recent.feed(feed);
    for (let i = 0; i < recent.numLeft; i++) {
      const left = recent.left[i];
      if (left >= 0) publishRow(e, outputs, left, failureOf, null);
      else {
        e.counters.wakes++;
        recent.owner(-1 - left)?.wake();
      }
    }
    recent.rotate();
  }
  for (const feed of totals.feeds) feed.tell();
}

function publishRow(
  e: EngineState,
  outputs: StepOutputs,
  row: number,
  failureOf: FailureOf,
  extras: readonly unknown[] | null,
): void {
  const stream = e.streams.of(outputs.requests[row]);
  if (stream === undefined) return;
  stream.append(outputs.tokens, outputs.tokenOffsets[row], outputs.tokenCounts[row], extras);
  if (stream.isAwaited) e.counters.wakes++;
  const reason = outputs.finishReasons[row] as FinishCode;
  if (reason !== FinishCode.none) {
    if (outputs.continues[row] === 0) {
      endStream(e, stream, reason, failureOf);
      return;
    }
    stream.endAnswer(finishReasonOf(reason) as EndReason);
  }
  if (stream.isAwaited) stream.wake();
}

/**
 * Ends the streams of requests that ended without a row of outputs, because a caller ended them
 * directly through the scheduler. Otherwise their readers would wait for ever.
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
