import type { Request } from '../scheduler/request.js';
import type { EngineState } from './engine-state.js';
import type { RequestStream } from './request-stream.js';

/**
 * Aborts are only queued here, by whoever asks and whenever: from inside the executor, from a signal, between two steps.
 * They are carried out before each schedule, and once more before a step's outputs are applied, so that what was aborted
 * while the step ran is not reported as a success.
 *
 * The stream ends at once: from now on nothing else can happen to the request.
 */
export function abortStream(e: EngineState, stream: RequestStream, reason: unknown): void {
  if (stream.ended) return;
  e.streams.remove(stream);
  if (reason === undefined) stream.end('abort', e.now());
  else stream.fail(reason, e.now(), true);
  e.aborts.set(stream.request, reason);
  e.poke();
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
    e.aborts.clear();
    if (handles.length > 0) ended += e.change((scheduler) => scheduler.abort(handles)).length;
  }
  return ended;
}

/** A request that was added behind the engine's back has no stream, nor has one that is being added. */
function abortUnread(e: EngineState, request: Request, reason: unknown): void {
  e.aborts.set(request, reason);
  e.poke();
}
