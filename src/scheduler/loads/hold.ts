import { startDeadline } from '../life/deadlines.js';
import { releaseIfDrained } from '../life/finish.js';
import type { BlockUse } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { getByHandle } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Registers a use of a request's blocks; see `Scheduler.hold`.
 * @returns false, and counted, if the handle is stale or the use is registered already
 */
export function hold(s: SchedulerState, { handle, kind, owner }: BlockUse): boolean {
  const request = getByHandle(s, handle);
  if (request === undefined) return false;
  if (s.addUse(request, kind, owner)) {
    // The load was done and the request not yet admitted. Now the request waits for one more load.
    const waits = kind === 'load' && request.load !== null && !s.queues.loading.has(request);
    if (waits) waitAgain(s, request);
    return true;
  }
  s.anomalies.report('duplicate-hold', `${kind}:${owner} of request ${request.id}`, request);
  return false;
}

/**
 * Ends a use of a request's blocks; see `Scheduler.complete`.
 * @returns false, and counted, if the handle is stale or there is no such use
 */
export function complete(s: SchedulerState, { handle, kind, owner }: BlockUse): boolean {
  const request = getByHandle(s, handle);
  if (request === undefined) return false;
  if (request.outstanding?.remove(kind, owner)) {
    releaseIfDrained(s, request);
    return true;
  }
  const known = request.outstanding?.knew(kind, owner) === true;
  s.anomalies.report(
    known ? 'duplicate-completion' : 'unknown-completion',
    `${kind}:${owner} of request ${request.id}`,
    request,
  );
  return false;
}

function waitAgain(s: SchedulerState, request: Request): void {
  s.queues.parkLoading(s.queues.skipped, request);
  request.waitingSince = s.now;
  startDeadline(s, request, s.config.deadlines.load);
}
