import type { Request } from '../request/request.js';
import { isBlocked } from '../request/status.js';
import type { Queues } from '../state/queues.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** Unfinished requests and where they stand, for tests and people. */
export interface Inspection {
  running: string[];
  /** In admission order. */
  waiting: string[];
  skipped: string[];
  /** All unfinished requests, in the order in which they were added. */
  requests: Request[];
  /** Finished ones whose blocks something still uses. */
  draining: Request[];
  /** Finished ones whose blocks nobody waits for any more. */
  quarantined: Request[];
}

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

/** Requests of a queue that `placeInLine` looks at: enough to say who is next, and quick however long the line is. */
const MOST_LOOKS = 1000;

/** Where a request stands that waits to be admitted. */
export interface PlaceInLine {
  /** Requests before it; at least so many if that is not exact, because there are 1,000 or more in one queue. */
  ahead: number;
  isExact: boolean;
  /** Requests in line, itself included; without those that wait for a load, for input or for their connector to wake them. */
  length: number;
  /** The first one that is not passed over because it waits for somebody outside. */
  head: Request;
}

/** The place of a request that is in line. Looks at a bounded number of requests. */
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

/** Whether a step passes it over, as far as is known before it. */
function isHeld({ status, asksLater, waitsForAdapter }: Request): boolean {
  return isBlocked(status) || asksLater || waitsForAdapter;
}

/** The finished request with this id whose blocks something still uses; of several the one that finished last, not quarantined. */
export function findFinished({ draining, quarantined }: SchedulerState, id: string): Request | undefined {
  let found: Request | undefined;
  for (const requests of [quarantined, draining])
    for (const request of requests) if (request.id === id) found = request;
  return found;
}

/** Requests that a step could bring further; see `Scheduler.numUnfinished`. */
export function numUnfinished({ pauseMode, queues }: SchedulerState): number {
  if (pauseMode === 'all') return 0;
  if (pauseMode === 'new') return queues.running.length;
  // A session that waits for input is in `idle`, beside the skipped ones.
  const apart = queues.loading.size + queues.deferred.size;
  return queues.running.length + queues.waiting.length + queues.skipped.length + apart;
}

/**
 * Whether a request could be scheduled as far as it alone is concerned: it runs, or waits for room, and for nobody outside. If
 * there is one and step after step schedules nothing, something is wrong.
 */
export function hasRunnable({ pauseMode, queues }: SchedulerState): boolean {
  if (pauseMode === 'all') return false;
  if (queues.running.length > 0) return true;
  if (pauseMode === 'new') return false;
  if (queues.waiting.length > 0) return true;
  return queues.skipped.toArray().some(({ status, asksLater }) => !isBlocked(status) && !asksLater);
}

/** Whether stepping can still change or report anything; see `Scheduler.hasWork`. */
export function hasWork(s: SchedulerState): boolean {
  const unreported = s.finishedIds.length + s.unreported.length;
  if (numUnfinished(s) + s.inFlight.length + unreported + s.draining.size > 0) return true;
  return s.connector?.askPendingWork() === true;
}
