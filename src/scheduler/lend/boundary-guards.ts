import type { Request } from '../request/request.js';
import { purgeUntracked, realignStatuses, sweepRunning } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * The founding guards as the boundary to a borrowing adapter uses them, in one object, so that the verification matrix
 * can take out one at a time and show what it is for. Nothing else writes it.
 */
export const boundaryGuards = {
  /** Purge before `processPendingChunks`: what has ended since the last step is parked no more. */
  purgeAtProcess: purgeParked,
  /** Purge before `restoreQueues`: what has ended while it was taken out is not put back. */
  purgeAtRestore: purgeParked,
  /** Realign before the base finish. */
  realign: realignStatuses,
  /** Sweep after it. */
  sweep: sweepRunning,
};

/**
 * Takes out of the adapter's arrays whatever is no live request, in place and in order. Each such request is counted,
 * and the adapter is told to forget it, unless it was told when the request ended.
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

/** Takes out what is no object at all: nothing can be asked of it. */
function dropNonsense({ anomalies }: SchedulerState, parked: Request[]): void {
  for (let i = parked.length - 1; i >= 0; i--) {
    const entry: unknown = parked[i];
    if (typeof entry === 'object' && entry !== null) continue;
    parked.splice(i, 1);
    anomalies.report('purged-untracked', `${String(entry)} was parked in place of a request`);
  }
}
