import { joined } from '../../base/arrays.js';
import { channels } from '../../base/channels.js';
import { PendingOp } from '../../core/core.js';
import { NEVER, type Plan } from '../plan/plan.js';
import { isUsed } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { enterQueue } from './deadlines.js';

/**
 * Gives a running request's blocks back and puts it first in line to be computed again. The caller has taken it out
 * of `running`. Its blocks keep their hashes, so that it finds most of them again; what steps in flight still bring
 * for it is kept (vLLM `_preempt_request`).
 */
export function preempt(s: SchedulerState, request: Request): void {
  giveBlocksBack(s, request);
  request.status = 'PREEMPTED';
  request.waitingSince = s.now;
  request.numComputedTokens = 0;
  request.numDraftTokens = 0;
  request.nextPublish = 0;
  request.numPreemptions++;
  s.counters.numPreemptions++;
  s.queues.prependWaiting(request);
  enterQueue(s, request);
  if (channels.preempt.hasSubscribers) channels.preempt.publish({ id: request.id, handle: request.handle });
}

/**
 * Gives the blocks of a request that goes on back to the pool. While a transfer still uses them they stay pinned, so that
 * nobody gets them (vLLM #29870, #46014).
 */
export function giveBlocksBack(s: SchedulerState, request: Request): void {
  if (isUsed(request)) keepBlocks(s, request, s.core.blocks(request.slot));
  giveRow(s, request);
  if (s.connector !== null) s.releasedHandles.push(request.handle);
}

/**
 * Gives the row of a finished request back, whose blocks something still uses: they are pinned until that ends, since only
 * what runs needs a row.
 * @returns false if it has no row
 */
export function giveRowBack(s: SchedulerState, request: Request): boolean {
  s.drainingRows.delete(request);
  const held = s.core.blocks(request.slot);
  if (held.length === 0) return false;
  keepBlocks(s, request, held);
  giveRow(s, request);
  return true;
}

function keepBlocks(s: SchedulerState, request: Request, blocks: Int32Array): void {
  s.core.native.pin(blocks);
  request.keptBlocks = request.keptBlocks === null ? blocks : joined(request.keptBlocks, blocks);
}

function giveRow(s: SchedulerState, { slot }: Request): void {
  s.core.push(PendingOp.release, slot, 0);
  s.blocksMoved = true;
}

/**
 * Preempts a running request whose results in flight are void: they are dropped when they arrive and computed again.
 * vLLM counts tokens to discard here and loses outputs with speculative decoding; the entries themselves are marked.
 * @param updating the plan that is being updated and not in flight any more
 */
export function preemptByForce(s: SchedulerState, request: Request, updating?: Plan): void {
  s.queues.remove(request);
  discardOutputs(s, request, updating);
  preempt(s, request);
}

/** Drops what the steps in flight, and the one being updated, bring for a request that starts again. */
export function discardOutputs(s: SchedulerState, request: Request, updating?: Plan): void {
  dropOutputs(s, request, updating);
  s.lastSteps[request.slot] = NEVER;
}

/** The same for one that goes on. */
export function dropOutputs(s: SchedulerState, request: Request, updating?: Plan): void {
  dropEntries(s.inFlight, request);
  if (updating !== undefined) dropEntries([updating], request);
  request.numOutputPlaceholders = 0;
}

function dropEntries(plans: readonly Plan[], request: Request): void {
  for (const plan of plans) {
    const at = plan.indexOf(request);
    if (at >= 0) plan.dropped[at] = 1;
  }
}
