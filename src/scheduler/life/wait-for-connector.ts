import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { RequestQueue } from '../state/request-queue.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { startDeadline, stopDeadline } from './deadlines.js';
import { countWait } from './expiry.js';
import { endUnreported } from './finish.js';

/**
 * Makes the head of a queue wait because the connector cannot say yet what it can load (vLLM
 * `get_num_new_matched_tokens` answers None). The request is passed over, and asked about again in
 * the next step or when the connector wakes it. The wait has the deadline of a load; in vLLM it has
 * none. Time in which no step considered the request does not count against its connector: the wait
 * is restarted.
 * @param wakes the connector will call `KvView.wake`; until then no step considers the request
 */
export function waitForConnector(
  s: SchedulerState,
  queue: RequestQueue,
  request: Request,
  wakes: boolean,
): void {
  const { load } = s.config.deadlines;
  const step = s.step - 1;
  if (!request.asksLater || request.askedStep < step - 1) {
    request.asksLater = true;
    request.waitingSince = s.now;
    startDeadline(s, request, load);
  } else if (load > 0 && s.now - request.waitingSince >= load) {
    request.failure = countWait(s, request);
    endUnreported(s, request, FinishCode.error);
    return;
  }
  request.askedStep = step;
  if (wakes) s.queues.parkDeferred(queue, request);
  else s.queues.passOver(queue, request);
}

/**
 * Ends that wait: the connector has answered, or is to be asked from the start, or will not be
 * asked any more. The request waits only for its admission.
 */
export function endConnectorWait(s: SchedulerState, request: Request): void {
  if (!request.asksLater) return;
  request.asksLater = false;
  request.waitingSince = s.now;
  stopDeadline(s, request);
  s.queues.unparkDeferred(request);
}

/**
 * Makes the next step ask the connector about a request again; see `KvView.wake`.
 * @returns false if the request does not wait to be woken, or the handle is stale
 */
export function wake(s: SchedulerState, handle: number): boolean {
  const request = s.incarnation(handle);
  if (request === undefined || !s.queues.unparkDeferred(request)) return false;
  // The connector's own time ends here.
  request.askedStep = s.step - 1;
  return true;
}
