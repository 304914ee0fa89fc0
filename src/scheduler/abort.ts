import { finishAll } from './finish.js';
import { getUnfinished, realignStatuses, sweepRunning } from './guards.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { FinishReason } from './status.js';

/** The unfinished requests that external ids and handles name, in that order, each once; others are counted. */
export function abortTargets(s: SchedulerState, keys: Iterable<string | number>): Set<Request> {
  const targets = new Set<Request>();
  for (const key of keys) {
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
