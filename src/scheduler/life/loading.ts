// Ends the wait for a load that is done; marks loads as failed.
import { PendingOp } from '../../core/core.js';
import { isFull } from '../options/kv-groups.js';
import { isLoading, type Load } from '../request/load.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { giveBlocksBack } from './preempt.js';

/**
 * Forgets a load, however it ended. Transfers that still use the blocks stay registered in
 * `outstanding`.
 */
export function leaveLoading(s: SchedulerState, request: Request): void {
  if (request.load === null) return;
  s.deadlines.stop(request);
  s.withLoad.delete(request);
  request.load = null;
}

/**
 * Treats a load as failed as a whole, also when it is unknown how much of it arrived: only the
 * locally cached tokens stay computed. With KV cache groups that need only some blocks, none stay
 * computed. The row was built for the tokens to be loaded, and lacks blocks that the local tokens
 * need before them.
 */
export function loseLoad(s: SchedulerState, request: Request): void {
  const { load } = request;
  if (load === null) return;
  markFailed(s, request, load);
  const keepsAll = s.groups.list.every(isFull);
  request.numComputedTokens = Math.min(request.numComputedTokens, keepsAll ? load.localTokens : 0);
}

/** The number of tokens that a completed load has loaded. */
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
 * Ends the wait for a load that is done (vLLM `_update_waiting_for_remote_kv`). Only now do the
 * good blocks of the load enter the prefix cache. If no token is good, the blocks are freed, so
 * that the next lookup may find local ones. At least one token is left to be computed, because
 * sampling needs it.
 * @returns false while the load is in progress
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
