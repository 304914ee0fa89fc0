import type { Request } from '../request/request.js';
import { NO_DEADLINE } from '../request/wait.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Sets the deadline of the wait that a request begins now.
 * @param timeout milliseconds; 0 = the wait has no deadline
 */
export function startDeadline(s: SchedulerState, request: Request, timeout: number): void {
  if (timeout > 0) s.deadlines.limitWait(request, s.now + timeout);
}

/** Clears the deadline of a wait that is over. */
export function stopDeadline(s: SchedulerState, request: Request): void {
  s.deadlines.stop(request);
}

/**
 * Sets the queue deadline (`deadlines.queue`): the request waits to be scheduled from now until
 * `leaveQueue`.
 */
export function enterQueue(s: SchedulerState, request: Request): void {
  const { queue } = s.config.deadlines;
  if (queue > 0) s.deadlines.limitQueue(request, s.now + queue);
}

/** Clears the queue deadline: the request is scheduled, or has nothing to schedule. */
export function leaveQueue(s: SchedulerState, request: Request): void {
  if (request.queueDeadline !== NO_DEADLINE) s.deadlines.limitQueue(request, NO_DEADLINE);
}

/**
 * Sets the deadline of a whole request (`timeoutMs`); in a session it limits the answer to one chunk.
 * @param since when the request or the chunk was added, on the scheduler's clock
 */
export function limitWhole(s: SchedulerState, request: Request, since: number): void {
  if (request.timeoutMs !== NO_DEADLINE) s.deadlines.limitWhole(request, since + request.timeoutMs);
}
