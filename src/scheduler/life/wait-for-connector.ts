import type { Request } from '../request/request.js';
import type { RequestQueue } from '../state/request-queue.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { startDeadline, stopDeadline } from './deadlines.js';

/**
 * The connector cannot say yet what it can bring of the request at the head of a queue (vLLM get_num_new_matched_tokens
 * answers None). The request is passed over, and asked about again in the next step, or when the connector wakes it. Here
 * this wait has a deadline, that of a load; in vLLM it has none.
 * @param wakes it stands apart until the connector wakes it
 */
export function waitForConnector(
  s: SchedulerState,
  queue: RequestQueue,
  request: Request,
  wakes: boolean,
): void {
  if (!request.asksLater) {
    request.asksLater = true;
    request.waitingSince = s.now;
    startDeadline(s, request, s.config.deadlines.load);
  }
  if (wakes) s.queues.parkDeferred(queue, request);
  else s.queues.passOver(queue, request);
}

/** The connector has said what it can bring: what the request waits for now is admission. */
export function endConnectorWait(s: SchedulerState, request: Request): void {
  if (!request.asksLater) return;
  request.asksLater = false;
  request.waitingSince = s.now;
  stopDeadline(s, request);
}

/** Has a request asked about again; see `KvView.wake`. */
export function wake(s: SchedulerState, handle: number): boolean {
  const request = s.incarnation(handle);
  return request !== undefined && s.queues.unparkDeferred(request);
}
