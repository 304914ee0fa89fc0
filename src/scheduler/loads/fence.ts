import { finishFromOutside, releaseIfDrained } from '../life/finish.js';
import { loseLoad } from '../life/loading.js';
import { isPeer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Ends every use of blocks by the connector, or by one of its children. The caller guarantees that
 * none of their transfers touches memory any more; see `Scheduler.fenceTransfers`. A load that had
 * not been reported counts as failed.
 *
 * Uses that have not begun stay, because their transfers will still touch the blocks. They are
 * loads of steps after `begunStep`, and stores of requests that ended when `begunStep` was the last
 * step, or later.
 * @param child index of the child; undefined = all children
 * @param begunStep last step whose plan was given to the workers
 * @returns number of requests of which a use ended
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
    s.fenced.add(request.handle);
  }
  return fenced;
}

/**
 * Fails the loads of a step whose metadata could not be made. Such a load never began, so no transfer writes its
 * blocks.
 * @param isLost whether the metadata of this child is missing
 */
export function loseLoadsOf(s: SchedulerState, step: number, isLost: (child: number) => boolean): void {
  for (const request of [...s.withLoad]) {
    if (request.load?.step !== step || !isLost(request.load.child)) continue;
    request.outstanding?.removeWhere('load', (owner) => isPeer(owner, request.load?.child));
    loseOrEnd(s, request);
    releaseIfDrained(s, request);
  }
}

/** Takes a request's load as failed; under the policy `fail` the request ends. */
function loseOrEnd(s: SchedulerState, request: Request): void {
  loseLoad(s, request);
  if (s.config.loadFailurePolicy === 'fail') endUnloaded(s, request);
}

/** Ends a request with `error` outside an update, because its KV could not be loaded. */
export function endUnloaded(s: SchedulerState, request: Request): void {
  request.failure ??= 'its KV could not be loaded';
  if (finishFromOutside(s, [request], FinishCode.error).length > 0) s.unreported.push(request);
  request.finishedParams = null;
}
