import { askPendingWork } from './ask-connector.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { isBlocked } from './status.js';

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
  return askPendingWork(s);
}
