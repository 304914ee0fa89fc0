// Ends the wait for a load that is done; marks loads as failed.
import { PendingOp } from '../../core/core.js';
import { isFull } from '../options/kv-groups.js';
import { isLoading, type Load } from '../request/load.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { giveBlocksBack } from './preempt.js';

/** Forgets a load, however it ended. Transfers that still use the blocks stay registered in `outstanding`. */
export function leaveLoading(s: SchedulerState, request: Request): void {
  if (request.load === null) return;
  s.deadlines.stop(request);
  s.withLoad.delete(request);
  request.load = null;
}

/**
 * Takes a load as failed as a whole, also when nobody knows how much of it came: only the locally cached tokens stay
 * computed. With KV cache groups that need only some blocks none does: the row was begun for what was to be loaded, and what the local
 * tokens need in front of them is not in it.
 */
export function loseLoad(s: SchedulerState, request: Request): void {
  const { load } = request;
  if (load === null) return;
  markFailed(s, request, load);
  const keepsAll = s.config.kvGroups?.list.every(isFull) ?? true;
  request.numComputedTokens = Math.min(request.numComputedTokens, keepsAll ? load.localTokens : 0);
}

/** Tokens that a load which is over has brought. */
export function tokensLoaded(request: Request, { localTokens, numTokens }: Load): number {
  return Math.max(0, Math.min(request.numComputedTokens - localTokens, numTokens));
}

/** Marks a load as failed. It is counted once, however many reports say so. */
export function markFailed(s: SchedulerState, request: Request, load: Load): void {
  if (load.failed) return;
  load.failed = true;
  request.numFailedLoads++;
  s.counters.failedLoads++;
}

/**
 * Ends the wait for a load that is done (vLLM `_update_waiting_for_remote_kv`). The good blocks of the load get into
 * the prefix cache now and not earlier. If no token is good, the blocks go back, so that the next lookup may find local
 * ones. At least one token is left to be computed, because sampling needs it.
 * @returns false while the load is under way
 */
export function endLoading(s: SchedulerState, request: Request): boolean {
  if (isLoading(request)) return false;
  if (request.load !== null) {
    request.numLoadedTokens = tokensLoaded(request, request.load);
    s.counters.externalHits += request.numLoadedTokens;
  }
  if (request.numComputedTokens === 0) giveBlocksBack(s, request, false);
  else if (s.config.enablePrefixCaching) {
    s.core.push(PendingOp.publish, request.slot, request.numComputedTokens);
  }
  if (request.numComputedTokens === request.numTokens) request.numComputedTokens--;
  leaveLoading(s, request);
  request.status = request.numPreemptions > 0 ? 'PREEMPTED' : 'WAITING';
  request.waitingSince = s.now;
  return true;
}
