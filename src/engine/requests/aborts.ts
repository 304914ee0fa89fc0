import { channels } from '../../base/channels.js';
import { BlockstepError, badArgument, show } from '../../base/errors.js';
import type { Request } from '../../scheduler/request/request.js';
import type { EngineState } from '../state/engine-state.js';
import type { StopReason } from '../streams/outputs.js';
import type { StreamBuffer } from '../streams/stream-buffer.js';

/**
 * Aborts are only queued here, by whoever asks and whenever: from inside the executor, from a signal, between two steps.
 * They are carried out before each schedule, and once more before a step's outputs are applied, so that what was aborted
 * while the step ran is not reported as a success.
 *
 * The stream ends at once: from now on nothing else can happen to the request.
 */
export function abortStream(e: EngineState, stream: StreamBuffer, reason: unknown): void {
  if (stream.ended) return;
  e.streams.remove(stream);
  if (reason === undefined) stream.end('abort', e.now());
  else stream.cutOff(reason, e.now());
  e.aborts.set(stream.request, reason);
  leaveBacklog(e, stream.request);
  e.poke();
}

/**
 * Ends the request of a stream as its client found the end in the text. To the scheduler that is an abort, as in vLLM, whose
 * scheduler knows no stop strings either; readers, counters and the channel are told `stop`.
 * @throws ERR_BLOCKSTEP_BAD_ARG for a session that goes on; nothing was changed
 */
export function stopStream(e: EngineState, stream: StreamBuffer, reason: unknown): void {
  const stopReason = takeStopReason(reason);
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
  e.aborts.set(request, undefined);
  leaveBacklog(e, request);
  e.stops.add(request);
  if (channels.stop.hasSubscribers) channels.stop.publish({ id, handle, stopReason });
  e.poke();
}

/** @throws ERR_BLOCKSTEP_BAD_ARG */
function takeStopReason(reason: unknown): StopReason | null {
  if (reason === undefined) return null;
  if (typeof reason === 'string' || (typeof reason === 'number' && Number.isFinite(reason))) return reason;
  throw badArgument('reason', show(reason), 'a string, a finite number, or absent');
}

/**
 * Aborts the requests that ids and handles name now. Those that are unknown or have ended are left to the scheduler to count,
 * which may throw in strict mode: so they come last.
 */
export function abortByKeys(e: EngineState, keys: readonly (string | number)[], reason: unknown): void {
  const rest: (string | number)[] = [];
  for (const key of keys) {
    const request = typeof key === 'string' ? e.scheduler.get(key) : e.scheduler.getByHandle(key);
    const stream = request === undefined ? undefined : e.streams.of(request);
    if (request === undefined || request.isFinished) rest.push(key);
    else if (stream !== undefined) abortStream(e, stream, reason);
    else abortUnread(e, request, reason);
  }
  if (rest.length > 0) e.change((scheduler) => scheduler.abort(rest));
}

/** Carries out what is queued, also what callbacks queue meanwhile. @returns how many requests ended */
export function drainAborts(e: EngineState): number {
  let ended = 0;
  while (e.aborts.size > 0) {
    const handles: number[] = [];
    for (const request of e.aborts.keys()) if (!request.isFinished) handles.push(request.handle);
    const stops = [...e.stops].filter(({ isFinished }) => !isFinished);
    e.stops.clear();
    e.aborts.clear();
    if (handles.length > 0) ended += e.change((scheduler) => scheduler.abort(handles)).length;
    e.counters.stopped += stops.length;
  }
  return ended;
}

/** A request that was added behind the engine's back has no stream, nor has one that is being added. */
function abortUnread(e: EngineState, request: Request, reason: unknown): void {
  e.aborts.set(request, reason);
  e.poke();
}

/** It is not admitted any more: there is room for another request now, and not only with the next step. */
function leaveBacklog(e: EngineState, request: Request): void {
  if (request.backlogTokens > 0) e.scheduler.backlog.leave(request, e.now(), false);
}
