import type { Request } from '../request/request.js';
import { isBlocked } from '../request/status.js';
import type { Queues } from '../state/queues.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * The requests of a scheduler by their containers, for tests and people. Strings are external ids.
 */
export interface Inspection {
  /** Requests that have a place in steps, in the order of their admission. */
  running: string[];
  /** In admission order. */
  waiting: string[];
  /** In admission order, including requests that are set apart. */
  skipped: string[];
  /** All unfinished requests, in the order in which they were added. */
  requests: Request[];
  /** Finished requests whose blocks are still used by something whose end is awaited. */
  draining: Request[];
  /** Finished requests whose blocks are in use without an awaited end. */
  quarantined: Request[];
}

/** Reads the containers of all requests of a scheduler. Changes nothing. */
export function inspect(s: SchedulerState): Inspection {
  const ids = (requests: readonly Request[]) => requests.map((request) => request.id);
  return {
    running: ids(s.queues.running),
    waiting: ids(s.queues.waiting.toArray()),
    skipped: ids(s.queues.allSkipped()),
    requests: [...s.requests.values()],
    draining: [...s.draining],
    quarantined: [...s.quarantined],
  };
}

/**
 * Requests of one queue that `placeInLine` examines: enough to say who is next, and quick however
 * long the queue is.
 */
const MOST_LOOKS = 1000;

/** The place of a request that waits to be admitted. */
export interface PlaceInLine {
  /**
   * Requests in front of it; a lower bound if `isExact` is false, because there are 1,000 or more
   * in one queue.
   */
  ahead: number;
  isExact: boolean;
  /**
   * Requests in line, itself included. Requests that wait for a load, for input, or to be woken by their connector
   * are not in line.
   */
  length: number;
  /** The first request in line that does not wait for an external event. */
  head: Request;
}

/** The place of a request that is in line. Examines 1,000 requests per queue at most. */
export function placeInLine({ queues }: SchedulerState, request: Request): PlaceInLine {
  const length = queues.waiting.length + queues.skipped.length;
  return { ...queues.countAhead(request, MOST_LOOKS), length, head: headOfLine(queues) ?? request };
}

function headOfLine(queues: Queues): Request | null {
  const next = queues.nextQueue()?.peek() ?? null;
  if (next === null || !isHeld(next)) return next;
  let first = queues.skipped.peek();
  for (let looks = 0; first !== null && isHeld(first) && looks < MOST_LOOKS; looks++) first = first.next;
  return first === null || isHeld(first) ? queues.waiting.peek() : first;
}

/** Whether the next step will pass over the request, as far as is known before the step. */
function isHeld({ status, asksLater, waitsForAdapter }: Request): boolean {
  return isBlocked(status) || asksLater || waitsForAdapter;
}

/**
 * The finished request with this id whose blocks are still in use. If there are several, the one
 * that finished last; a quarantined request only if there is no other.
 */
export function findFinished({ draining, quarantined }: SchedulerState, id: string): Request | undefined {
  let found: Request | undefined;
  for (const requests of [quarantined, draining])
    for (const request of requests) if (request.id === id) found = request;
  return found;
}

/** Requests that a step could advance, see `Scheduler.numUnfinished`. */
export function numUnfinished({ pauseMode, queues }: SchedulerState): number {
  if (pauseMode === 'all') return 0;
  if (pauseMode === 'new') return queues.running.length;
  // Sessions that wait for input are in `idle`, and do not count.
  const apart = queues.loading.size + queues.deferred.size;
  return queues.running.length + queues.waiting.length + queues.skipped.length + apart;
}

/**
 * Whether some request could be scheduled: it runs, or it waits only for room and for no external
 * event. If there is such a request and step after step schedules nothing, something is wrong.
 */
export function hasRunnable({ pauseMode, queues, borrower }: SchedulerState): boolean {
  if (pauseMode === 'all') return false;
  // A request that waits for a chunk of a borrowing adapter waits for an external event.
  const isReady = ({ status }: Request) => borrower === null || status !== 'WAITING_FOR_CHUNK';
  if (queues.running.some(isReady)) return true;
  if (pauseMode === 'new') return false;
  if (borrower === null ? queues.waiting.length > 0 : queues.waiting.toArray().some(isReady)) return true;
  return queues.skipped
    .toArray()
    .some((request) => isReady(request) && !isBlocked(request.status) && !request.asksLater);
}

/** Whether further steps can still change or report anything, see `Scheduler.hasWork`. */
export function hasWork(s: SchedulerState): boolean {
  const unreported = s.finishedIds.length + s.unreported.length;
  if (numUnfinished(s) + s.inFlight.length + unreported + s.draining.size > 0) return true;
  return s.connector?.askPendingWork() === true;
}
