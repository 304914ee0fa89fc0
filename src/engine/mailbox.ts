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

/** Aborts the request that an id or a handle names now. One that is unknown or has ended is left to the scheduler to count. */
export function abortByKey(e: EngineState, key: string | number, reason: unknown): void {
  const request = typeof key === 'string' ? e.scheduler.get(key) : e.scheduler.getByHandle(key);
  if (request === undefined || request.isFinished) {
    e.change((scheduler) => scheduler.abort(key));
    return;
  }
  const stream = e.streams.of(request);
  if (stream !== undefined) abortStream(e, stream, reason);
  else abortUnread(e, request, reason);
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
