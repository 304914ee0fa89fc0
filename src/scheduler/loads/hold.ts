import { startDeadline } from '../life/deadlines.js';
import { releaseIfDrained } from '../life/finish.js';
import type { BlockUse } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { getByHandle } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** Registers a use of a request's blocks; see `Scheduler.hold`. */
export function hold(s: SchedulerState, { handle, kind, owner }: BlockUse): boolean {
  const request = getByHandle(s, handle);
  if (request === undefined) return false;
  if (s.addUse(request, kind, owner)) {
    // Its load was done; now it waits for one more.
    const waits = kind === 'load' && request.load !== null && !s.queues.loading.has(request);
    if (waits) waitAgain(s, request);
    return true;
  }
  s.anomalies.report('duplicate-hold', `${kind}:${owner} of request ${request.id}`, request);
  return false;
}

/** Ends a use of a request's blocks; see `Scheduler.complete`. */
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
