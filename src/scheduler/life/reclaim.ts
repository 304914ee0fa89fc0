import type { Plan } from '../plan/plan.js';
import { isUsed } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { dropZombie } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { endLoading } from './loading.js';
import { giveBlocksBack, giveRowBack } from './preempt.js';

/**
 * Takes the blocks of one session that does not run, because something else needs them: that of the longest idle one, or
 * if nothing else runs, so that nothing else can ever give blocks back, of the last one in line for admission. Its blocks keep their hashes, so that it finds again
 * what was not reused meanwhile. Sessions whose blocks a transfer uses are left alone.
 * @param needy never this one
 * @returns false if there is none
 */
export function reclaimSession(s: SchedulerState, needy: Request): boolean {
  if (!s.config.deviations.reclaimIdleSessions) return false;
  const { idleHolders } = s.queues;
  for (let request = idleHolders.peek(); request !== null; request = idleHolders.peek()) {
    // One whose blocks are used comes back when that is over.
    idleHolders.drop(request);
    if (dropZombie(s, s.queues.skipped, request)) continue;
    if (canReclaim(request, needy)) return reclaim(s, request);
  }
  const { running } = s.queues;
  if (running.length > 1 || (running.length === 1 && running[0] !== needy)) return false;
  // Those of `skipped` are ahead of those of `waiting`.
  for (const queue of [s.queues.waiting, s.queues.skipped]) {
    const last = queue.toArray().findLast((request) => canReclaim(request, needy));
    if (last !== undefined) return reclaim(s, last);
  }
  return false;
}

/**
 * Takes the blocks of one request whose load is done and that does not run yet: of the last in line, when otherwise nothing
 * ever would go on, because nothing runs and the first in line does not fit, or the only one that runs cannot grow. It is
 * looked up again.
 * @param needy never this one
 * @returns false if there is none
 */
export function reclaimStuckLoad(s: SchedulerState, plan: Plan, needy: Request): boolean {
  if (!s.config.deviations.admitStuckLoads || s.connector === null) return false;
  if (!isAlone(s, plan, needy)) return false;
  for (const requests of [s.queues.waiting.toArray(), s.queues.skipped.toArray(), s.queues.passedOver]) {
    const last = requests.findLast((request) => isStuckLoad(request, needy));
    if (last === undefined) continue;
    releaseWaiting(s, last);
    s.counters.loadsReclaimed++;
    return true;
  }
  return false;
}

/**
 * Takes the row of the request that finished first of those whose blocks are still used. The blocks stay out of use: what is
 * fetched late, or never, costs blocks, and no rows.
 * @returns false if there is none
 */
export function reclaimRow(s: SchedulerState): boolean {
  for (const request of s.drainingRows) if (giveRowBack(s, request)) return true;
  return false;
}

/** Nothing runs but the needy request itself, so that nobody else can ever give blocks back. */
function isAlone({ queues: { running }, inFlight }: SchedulerState, plan: Plan, needy: Request): boolean {
  if (running.length > 0) return running.length === 1 && running[0] === needy;
  return plan.totalTokens === 0 && inFlight.length === 0;
}

/** It holds blocks that nothing writes any more. */
function isStuckLoad(request: Request, needy: Request): boolean {
  const { session, numComputedTokens, load } = request;
  if (request === needy || request.isFinished || session !== null) return false;
  return (numComputedTokens > 0 || load !== null) && !isUsed(request);
}

/** Takes the blocks of every session that does not run. @returns their external ids */
export function reclaimAllSessions(s: SchedulerState): string[] {
  if (!s.config.deviations.reclaimIdleSessions) return [];
  const { waiting, idle, skipped } = s.queues;
  const all = [...idle, ...skipped.toArray(), ...waiting.toArray()].filter((request) => canReclaim(request));
  for (const request of all) reclaim(s, request);
  return all.map((request) => request.id);
}

function canReclaim(request: Request, needy?: Request): boolean {
  const { session, numComputedTokens, load } = request;
  if (request.isFinished || session === null || request === needy) return false;
  // One whose load failed as a whole has computed nothing, and holds the blocks that it was loaded into.
  if (numComputedTokens === 0 && load === null) return false;
  return !isUsed(request);
}

function reclaim(s: SchedulerState, request: Request): true {
  releaseWaiting(s, request);
  s.counters.sessionsReclaimed++;
  return true;
}

/** Gives the blocks of a request that does not run back. Its next admission looks for a cached prefix again. */
export function releaseWaiting(s: SchedulerState, request: Request): void {
  if (request.load !== null) endLoading(s, request);
  // A load that brought nothing has given them back by then.
  if (s.core.blocks(request.slot).length > 0) giveBlocksBack(s, request);
  request.numComputedTokens = 0;
  request.nextPublish = 0;
}
