import { channels } from '../../base/channels.js';
import { BlockstepError, badArgument, show } from '../../base/errors.js';
import type { Request } from '../../scheduler/request/request.js';
import { FinishCode } from '../../scheduler/request/status.js';
import type { StopReason } from '../outputs/outputs.js';
import type { EngineState } from '../state/engine-state.js';
import type { StreamBuffer } from '../streams/stream-buffer.js';

/**
 * Aborts the requests that ids and handles name now: `Engine.abort`. Ids and handles of unknown or
 * ended requests are counted.
 * @param reason the readers are rejected with it; undefined = reading ends with `abort`
 * @throws ERR_BLOCKSTEP_ANOMALY in strict mode, for a handle that was never given out; all other
 * requests are aborted
 */
export function abortByKeys(e: EngineState, keys: readonly (string | number)[], reason: unknown): void {
  const { aborts } = e.scheduler;
  const found = aborts.find(keys);
  for (const request of found) {
    const stream = e.streams.of(request);
    if (stream !== undefined) abortStream(e, stream, reason);
    // The request has no stream. It was added directly through the scheduler, is just being added,
    // or has finished and its blocks are still being sent.
    else queueAbort(e, request, reason);
  }
  if (found.size < keys.length) e.change(() => aborts.checkFound());
}

/**
 * Aborts the request of a stream, for a client, a signal, a reader that leaves its loop, or the end of a shutdown. The stream ends at
 * once, so its client sees no later event of the request.
 */
export function abortStream(e: EngineState, stream: StreamBuffer, reason: unknown): void {
  if (stream.ended) return;
  e.streams.remove(stream);
  if (reason === undefined) stream.end('abort', e.now());
  else stream.cutOff(reason, e.now());
  queueAbort(e, stream.request, reason);
}

/**
 * Ends the request of a stream for a client that found the end in the text. The scheduler aborts the request, as in vLLM, whose
 * scheduler knows no stop strings either. Readers, counters and the channel see `stop`.
 * @throws ERR_BLOCKSTEP_BAD_ARG for a session whose input is open; nothing was changed
 */
export function stopStream(e: EngineState, stream: StreamBuffer, reason: unknown): void {
  const stopReason = parseStopReason(reason);
  if (stream.ended) return;
  const { request } = stream;
  const { id, handle, session } = request;
  if (session !== null && !(session.ended && session.queue.length === 0)) {
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_ARG',
      `session ${show(id)} cannot be stopped while its input is open: the next chunk follows what was computed, also behind the stop; end its input first, or abort it`,
    );
  }
  e.streams.remove(stream);
  stream.stop(stopReason, e.now());
  e.stops.add(request);
  queueAbort(e, request, undefined);
  if (channels.stop.hasSubscribers) channels.stop.publish({ id, handle, stopReason });
}

/** Has the scheduler carry out the queued aborts. @returns whether there were any */
export function drainAborts(e: EngineState): boolean {
  if (e.scheduler.aborts.size === 0) return false;
  e.change((scheduler) => scheduler.aborts.drain());
  countStops(e);
  return true;
}

/** Counts the stops that the scheduler has carried out. A request that ended in another way before is not counted. */
export function countStops(e: EngineState): void {
  for (const request of e.stops) {
    if (!request.isFinished) continue;
    e.stops.delete(request);
    if (request.finishCode === FinishCode.abort) e.counters.stopped++;
  }
}

/**
 * Queues a request to be aborted by the next drain. Its place among the queued requests
 * (`maxQueuedRequests`) is free at once.
 */
function queueAbort(e: EngineState, request: Request, reason: unknown): void {
  e.scheduler.aborts.queue(request, reason);
  if (request.backlogTokens > 0) e.scheduler.backlog.leave(request, e.now(), false);
  e.poke();
}

/** @throws ERR_BLOCKSTEP_BAD_ARG */
function parseStopReason(reason: unknown): StopReason | null {
  if (reason === undefined) return null;
  if (typeof reason === 'string' || (typeof reason === 'number' && Number.isFinite(reason))) return reason;
  throw badArgument('reason', show(reason), 'a string, a finite number, or absent');
}
