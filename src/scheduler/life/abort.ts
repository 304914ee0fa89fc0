import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { getUnfinished, realignStatuses, sweepRunning } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { finishAll } from './finish.js';

/**
 * The requests that external ids and handles name and an abort can concern, in that order, each once: unfinished ones, and
 * those that are still sent where the connector can be asked to stop. Others are counted.
 */
export function abortTargets(s: SchedulerState, keys: Iterable<string | number>): Set<Request> {
  const targets = new Set<Request>();
  for (const key of keys) {
    const request = findSent(s, key) ?? getUnfinished(s, key, 'abort');
    if (request !== undefined) targets.add(request);
  }
  return targets;
}

/** Whether an abort of this target changes anything now: it may have ended since it was named. */
export function isAbortable(s: SchedulerState, request: Request): boolean {
  return !request.isFinished || (isCancellable(s, request) && !request.cancelled);
}

/** Aborts requests in every state. @returns the external ids of those that ended now */
export function abort(s: SchedulerState, targets: readonly Request[]): string[] {
  const live = targets.filter((target) => !target.isFinished);
  for (const target of targets) if (target.isFinished) cancel(s, target);
  realignStatuses(s, live);
  const ended = finishAll(s, live, FinishCode.abort);
  sweepRunning(s);
  return ended;
}

/** A finished request that this key names now, and no unfinished one. */
function findSent(s: SchedulerState, key: string | number): Request | undefined {
  if (s.config.reclaim !== 'on-confirmation') return undefined;
  if (typeof key === 'number') {
    const request = s.incarnation(key);
    return request !== undefined && isCancellable(s, request) ? request : undefined;
  }
  return s.requests.has(key) ? undefined : [...s.draining].findLast(({ id }) => id === key);
}

function isCancellable(s: SchedulerState, request: Request): boolean {
  return s.config.reclaim === 'on-confirmation' && s.draining.has(request);
}

/**
 * The connector still reads the blocks of a request that has finished, and nobody wants them any more: it is asked to stop,
 * once. They stay until it has reported (vLLM #25067; to free them at once, #35506, is to free them under a reader).
 */
function cancel(s: SchedulerState, request: Request): void {
  if (!request.cancelled) s.connector?.tellCancel(request);
  request.cancelled = true;
}
