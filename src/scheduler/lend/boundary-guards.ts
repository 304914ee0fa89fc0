import type { Request } from '../request/request.js';
import { purgeUntracked, realignStatuses, sweepRunning } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * The founding guards as used at the boundary to a borrowing adapter. They are in one object so
 * that the verification matrix can remove one at a time and show its purpose. No other code writes
 * it.
 */
export const boundaryGuards = {
  /**
   * Purge before `processPendingChunks`: requests that ended since the last step are no longer
   * parked.
   */
  purgeAtProcess: purgeParked,
  /**
   * Purge before `restoreQueues`: requests that ended while they were taken out are not put back.
   */
  purgeAtRestore: purgeParked,
  /** Realign before the base finish. */
  realign: realignStatuses,
  /** Sweep after it. */
  sweep: sweepRunning,
};

/**
 * Removes everything that is not a live request from the adapter's arrays, in place and in order.
 * Each such request is counted. The adapter is told to forget it, unless it was told when the
 * request ended.
 */
function purgeParked(s: SchedulerState): void {
  const { borrower, requests, anomalies } = s;
  if (borrower === null) return;
  for (const parked of borrower.parked) {
    dropNonsense(s, parked);
    purgeUntracked(parked, requests, (request) => {
      anomalies.report('purged-untracked', `request ${request.id} was parked and is not live`, request);
      borrower.noteEnded(request);
    });
  }
}

/** Removes elements that are not objects, about which nothing can be asked. */
function dropNonsense({ anomalies }: SchedulerState, parked: Request[]): void {
  for (let i = parked.length - 1; i >= 0; i--) {
    const entry: unknown = parked[i];
    if (typeof entry === 'object' && entry !== null) continue;
    parked.splice(i, 1);
    anomalies.report('purged-untracked', `${String(entry)} was parked in place of a request`);
  }
}
