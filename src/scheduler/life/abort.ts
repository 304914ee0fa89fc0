import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { getUnfinished } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { finishFromOutside, stopSending } from './finish.js';

/**
 * The requests that an abort of these keys concerns, in the order of the keys, each once. A key is
 * an external id or a handle. An abort concerns an unfinished request. With
 * `reclaim: 'on-confirmation'` it also concerns a finished request whose blocks are still in use,
 * because the connector can be asked to stop. A key that names neither is counted as an anomaly.
 */
export function abortTargets(s: SchedulerState, keys: Iterable<string | number>): Set<Request> {
  const targets = new Set<Request>();
  for (const key of keys) {
    const request = findSent(s, key) ?? getUnfinished(s, key, 'abort');
    if (request !== undefined) targets.add(request);
  }
  return targets;
}

/** Whether an abort of this request still changes anything: the request may have ended since the abort named it. */
export function isAbortable(s: SchedulerState, request: Request): boolean {
  return !request.isFinished || (isCancellable(s, request) && !request.cancelled);
}

/**
 * Aborts requests, whatever state they are in. For a finished request the connector is asked to stop sending.
 * @returns external ids of the requests that ended now
 */
export function abort(s: SchedulerState, targets: readonly Request[]): string[] {
  for (const target of targets) if (target.isFinished) stopSending(s, target);
  return finishFromOutside(s, targets, FinishCode.abort);
}

/**
 * The finished request that this key names and whose blocks are still in use. Undefined if an
 * unfinished request has the key.
 */
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
