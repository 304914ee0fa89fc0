import { endUnreported, releaseIfDrained } from '../life/finish.js';
import { loseLoad } from '../life/loading.js';
import { isPeer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Ends every use of blocks by the connector, because whoever runs the transfers vouches that none of them touches memory
 * any more; see `Scheduler.fenceTransfers`. What had not come counts as failed. A load of a step behind `begunStep` has not
 * begun, nor has what the connector began for a request that ended when `begunStep` was the last one: it will touch the
 * blocks when it does, so its use stays.
 * @returns the requests that a use of ended
 */
export function fenceTransfers(s: SchedulerState, child: number | undefined, begunStep: number): number {
  const all = [...s.requests.values(), ...s.draining, ...s.quarantined];
  let fenced = 0;
  for (const request of all) {
    const { outstanding } = request;
    if (outstanding === null) continue;
    const passes = (owner: string): boolean => isPeer(owner, child);
    const loads = request.loadStep <= begunStep && outstanding.removeWhere('load', passes);
    const stores = request.endedStep < begunStep && outstanding.removeWhere('store', passes);
    if (!loads && !stores) continue;
    fenced++;
    if (loads && request.load !== null) loseOrEnd(s, request);
    releaseIfDrained(s, request);
  }
  return fenced;
}

/**
 * Loads of this step never began, because their metadata could not be made: nothing writes their blocks.
 * @param isLost whether it is so for those of a child
 */
export function loseLoadsOf(s: SchedulerState, step: number, isLost: (child: number) => boolean): void {
  for (const request of [...s.withLoad]) {
    if (request.load?.step !== step || !isLost(request.load.child)) continue;
    request.outstanding?.removeWhere('load', (owner) => isPeer(owner, request.load?.child));
    loseOrEnd(s, request);
    releaseIfDrained(s, request);
  }
}

function loseOrEnd(s: SchedulerState, request: Request): void {
  loseLoad(s, request);
  if (s.config.loadFailurePolicy === 'fail') endUnloaded(s, request);
}

/** Ends a request outside an update, because its KV could not be loaded. */
export function endUnloaded(s: SchedulerState, request: Request): void {
  request.failure ??= 'its KV could not be loaded';
  endUnreported(s, request, FinishCode.error);
  request.finishedParams = null;
}
