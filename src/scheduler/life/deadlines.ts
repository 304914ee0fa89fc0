import type { Request } from '../request/request.js';
import { NO_DEADLINE } from '../request/wait.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** Limits the wait that a request begins now; `timeout` in milliseconds, 0 = it may wait for ever. */
export function startDeadline(s: SchedulerState, request: Request, timeout: number): void {
  if (timeout > 0) s.deadlines.limitWait(request, s.now + timeout);
}

/** The wait of a request is over. */
export function stopDeadline(s: SchedulerState, request: Request): void {
  s.deadlines.stop(request);
}

/** The request stands in the queue from now on, until `leaveQueue`. */
export function enterQueue(s: SchedulerState, request: Request): void {
  const { queue } = s.config.deadlines;
  if (queue > 0) s.deadlines.limitQueue(request, s.now + queue);
}

/** The request is scheduled, or has nothing to be scheduled for. */
export function leaveQueue(s: SchedulerState, request: Request): void {
  if (request.queueDeadline !== NO_DEADLINE) s.deadlines.limitQueue(request, NO_DEADLINE);
}

/** Limits a request as a whole, or in a session the answer to the chunk that came at `since`. */
export function limitWhole(s: SchedulerState, request: Request, since: number): void {
  if (request.timeoutMs !== NO_DEADLINE) s.deadlines.limitWhole(request, since + request.timeoutMs);
}
