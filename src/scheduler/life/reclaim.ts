// Takes blocks or rows from requests that do not run.
import { hasRows } from '../../core/rows.js';
import type { Plan } from '../plan/plan.js';
import { isUsed } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { dropZombie } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { endLoading } from './loading.js';
import { giveBlocksBack, giveRowBack } from './preempt.js';

/**
 * Reclaims the blocks of one session that does not run, because another request needs blocks or a
 * row. The longest idle session comes first. Otherwise the last session in line for admission loses
 * its blocks, in two cases. Either nothing but the needy request runs, so that no request can ever
 * free blocks, or a row is lacking. Requests behind a request without a row cannot be admitted
 * before it, and a session in line gives its row to nobody else. The blocks keep their hashes, so
 * that the session finds again the blocks that were not reused. A session whose blocks a transfer
 * uses is skipped.
 * @param needy the request that needs blocks; its own are never taken
 * @param lacksRow the needy request is at the head of the line and found no row
 * @returns false if no session has blocks to give
 */
export function reclaimSession(s: SchedulerState, needy: Request, lacksRow = false): boolean {
  if (!s.config.deviations.reclaimIdleSessions) return false;
  const { idleHolders } = s.queues;
  for (let request = idleHolders.peek(); request !== null; request = idleHolders.peek()) {
    // A session whose blocks a transfer uses is offered again when that use ends.
    idleHolders.drop(request);
    if (dropZombie(s, s.queues.skipped, request)) continue;
    if (canReclaim(request, needy)) return reclaim(s, request);
  }
  const { running, numLentRunning } = s.queues;
  const isAlone = running.length === 0 || (running.length === 1 && running[0] === needy);
  if (!lacksRow && (numLentRunning > 0 || !isAlone)) return false;
  // The requests of `skipped` precede those of `waiting`.
  for (const queue of [s.queues.waiting, s.queues.skipped]) {
    const last = queue.toArray().findLast((request) => canReclaim(request, needy));
    if (last !== undefined) return reclaim(s, last);
  }
  return false;
}

/**
 * Reclaims the blocks of one request whose load is done and that was not admitted yet: the last
 * such request in line. This happens only if otherwise no request could ever continue. Nothing runs
 * and the first in line does not fit, or the only running request cannot grow. The prefix of the
 * request that lost its blocks is looked up again.
 * @param needy the request that needs blocks; its own are never taken
 * @returns false if no such request has blocks to give
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
 * Reclaims the blocks of the session that is first in line itself, if nothing runs and no other
 * request has blocks to give. It may hold more than a request with the same tokens would, such as
 * states and windows of its last answer. It may also need more than that request. It begins again,
 * as far as its prefix is not cached.
 * @returns false if it has none to give, or if others may still give some; true: its prefix must be
 * looked up again
 */
export function reclaimOwn(s: SchedulerState, plan: Plan, needy: Request): boolean {
  // A draining request frees its blocks, or is quarantined when its deadline is over.
  if (!s.config.deviations.reclaimIdleSessions || s.draining.size > 0) return false;
  return canReclaim(needy) && isAlone(s, plan, needy) && reclaim(s, needy);
}

/**
 * Reclaims the row of the draining request that finished first. Its blocks stay pinned, so a late
 * or lost transfer costs blocks, and no rows.
 * @returns false if no draining request has a row
 */
export function reclaimRow(s: SchedulerState): boolean {
  for (const request of s.drainingRows) if (giveRowBack(s, request)) return true;
  return false;
}

/**
 * Whether nothing runs but the needy request itself, so that no other request can ever free blocks.
 */
function isAlone({ queues, inFlight }: SchedulerState, plan: Plan, needy: Request): boolean {
  const { running, numLentRunning } = queues;
  if (numLentRunning > 0) return false;
  if (running.length > 0) return running.length === 1 && running[0] === needy;
  return plan.totalTokens === 0 && inFlight.length === 0;
}

/** Whether the request holds loaded blocks that no transfer uses any more, and is no session. */
function isStuckLoad(request: Request, needy: Request): boolean {
  const { session, numComputedTokens, load } = request;
  if (request === needy || request.isFinished || session !== null) return false;
  return (numComputedTokens > 0 || load !== null) && !isUsed(request);
}

/**
 * Reclaims the blocks of every session that does not run, for a forced reset of the prefix cache.
 * @returns external ids of those sessions
 */
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
  // A session whose load failed as a whole has no computed tokens, but still holds the blocks of the load.
  if (numComputedTokens === 0 && load === null) return false;
  return !isUsed(request);
}

function reclaim(s: SchedulerState, request: Request): true {
  releaseWaiting(s, request);
  s.counters.sessionsReclaimed++;
  return true;
}

/**
 * Frees the blocks of a request that does not run. Its next admission looks for a cached prefix
 * again.
 */
export function releaseWaiting(s: SchedulerState, request: Request): void {
  if (request.load !== null) endLoading(s, request);
  // If the load loaded nothing, `endLoading` has freed the blocks already.
  if (hasRows(s.core, request.slot)) giveBlocksBack(s, request);
  request.numComputedTokens = 0;
  request.nextPublish = 0;
}
