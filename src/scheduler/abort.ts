import { tellCancel } from './ask-connector.js';
import { finishAll } from './finish.js';
import { getUnfinished, realignStatuses, sweepRunning } from './guards.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { FinishReason } from './status.js';

/** The unfinished requests that external ids and handles name, in that order, each once; others are counted. */
export function abortTargets(s: SchedulerState, keys: Iterable<string | number>): Set<Request> {
  const targets = new Set<Request>();
  for (const key of keys) {
    if (cancel(s, key)) continue;
    const request = getUnfinished(s, key, 'abort');
    if (request !== undefined) targets.add(request);
  }
  return targets;
}

/** Aborts requests in every state. @returns the external ids of those that ended now */
export function abort(s: SchedulerState, targets: Iterable<Request>): string[] {
  realignStatuses(s, targets);
  const ended = finishAll(s, targets, FinishReason.abort);
  sweepRunning(s);
  return ended;
}

/**
 * An abort of a request that has finished and whose blocks the connector still reads: it is asked to stop, once. Its blocks
 * stay until it has reported (vLLM #25067; to free them at once, #35506, is to free them under a reader).
 * @returns whether the key names such a request
 */
function cancel(s: SchedulerState, key: string | number): boolean {
  if (s.config.reclaim !== 'on-confirmation') return false;
  if (typeof key === 'string' && s.requests.has(key)) return false;
  for (const request of s.draining) {
    if (key !== request.id && key !== request.handle) continue;
    if (!request.cancelled) tellCancel(s, request);
    request.cancelled = true;
    return true;
  }
  return false;
}
