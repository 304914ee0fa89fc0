import { joined } from '../../base/arrays.js';
import { channels } from '../../base/channels.js';
import { PendingOp } from '../../core/core.js';
import { hasRows, heldBlocks } from '../../core/rows.js';
import { neededPlaces } from '../connector/view-group.js';
import { NEVER, type Plan } from '../plan/plan.js';
import { isUsed } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { enterQueue } from './deadlines.js';

/** Values of `Plan.dropped`; a forced reset takes precedence over the other causes. */
const DROPPED = 1;
const BY_RESET = 2;

/**
 * Preempts a request (vLLM `_preempt_request`): frees its blocks and puts it first in line to be
 * computed again. The caller has removed the request from `running`. The blocks keep their hashes,
 * so that the request finds most of them again. The rule `preemptedOutputs` decides about outputs
 * of steps in flight.
 */
export function preempt(s: SchedulerState, request: Request): void {
  const { preemptedOutputs } = s.config;
  const awaits = preemptedOutputs === 'await';
  if (awaits && followsReset(s, request)) dropByReset(s, request);
  else if (preemptedOutputs === 'discard') discardOutputs(s, request);
  else if (awaits) request.numOutputPlaceholders = 0;
  giveBlocksBack(s, request);
  s.prefills.delete(request);
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
 * Whether outputs that a forced reset has dropped are still in flight. As in vLLM, the outputs
 * after them are then dropped too. Outputs dropped for another cause do not affect later ones:
 * after the tail of a session's answer, later outputs belong to the next answer.
 */
function followsReset({ inFlight }: SchedulerState, request: Request): boolean {
  return inFlight.some((plan) => {
    const at = plan.indexOf(request);
    return at >= 0 && plan.dropped[at] === BY_RESET;
  });
}

/**
 * Frees the blocks of an unfinished request. While a transfer still uses the blocks they stay
 * pinned, so that no other request gets them (vLLM #29870, #46014).
 * @param isComputed a step in flight that has the request may write the blocks; false: only a load
 * wrote them, and it has ended
 */
export function giveBlocksBack(s: SchedulerState, request: Request, isComputed = true): void {
  if (isUsed(request)) keepBlocks(s, request, heldBlocks(s.core, request.slot));
  else if (isComputed) fenceBlocks(s, request);
  giveRow(s, request);
  if (s.connector !== null) s.releasedHandles.push(request.handle);
}

/**
 * Frees the row of a finished request while a transfer still uses its blocks. The blocks are pinned
 * until that use ends. Only running requests need a row.
 * @returns false if the request has no row
 */
export function giveRowBack(s: SchedulerState, request: Request): boolean {
  s.drainingRows.delete(request);
  const held = heldBlocks(s.core, request.slot);
  if (!hasRows(s.core, request.slot)) return false;
  keepBlocks(s, request, held);
  giveRow(s, request);
  return true;
}

/**
 * Pins the blocks that a request is about to drop because no later token reads them, while a
 * transfer still uses the request's blocks. No other request gets them until then. Call this before
 * the core drops them.
 * @param numComputed tokens after which the core drops blocks
 */
export function keepDropped(s: SchedulerState, request: Request, numComputed: number): void {
  const { kvGroups } = s.config;
  if (kvGroups === null || !isUsed(request)) return;
  const left: number[] = [];
  for (const [g, group] of kvGroups.list.entries()) {
    const drafts = s.config.windowBasis === 'scheduled' ? group.numSpeculativeBlocks : 0;
    const sure = Math.max(0, numComputed - drafts);
    const row = s.core.blocks(request.slot, g);
    for (let place = neededPlaces(group, sure).first - 1; place >= 0; place--) {
      // The places before an empty place were dropped earlier, except if steps make states only
      // sometimes.
      if (row[place] !== 0) left.push(row[place]);
      else if (group.mode !== 'align') break;
    }
  }
  const kept = left.length > 0 && request.keptBlocks !== null ? new Set(request.keptBlocks) : null;
  const fresh = kept === null ? left : left.filter((id) => !kept.has(id));
  if (fresh.length > 0) keepBlocks(s, request, Int32Array.from(fresh));
}

function keepBlocks(s: SchedulerState, request: Request, blocks: Int32Array): void {
  s.core.native.pin(blocks);
  request.keptBlocks = request.keptBlocks === null ? blocks : joined(request.keptBlocks, blocks);
}

/**
 * With the rule `fenceFrees`: pins the blocks of a request that frees its row while a step in
 * flight may still write them. The pins last until that step has been updated. The rows of all KV
 * cache groups are then freed together, the last group's first (vLLM `pop_blocks_for_free`).
 */
export function fenceBlocks(s: SchedulerState, request: Request): void {
  if (!mayBeWritten(s, request)) return;
  const blocks = heldBlocks(s.core, request.slot);
  if (blocks.length === 0) return;
  s.core.native.pin(blocks);
  s.fencedFrees.push({ id: request.id, blocks, after: s.numScheduledPlans });
}

/**
 * Frees the blocks that a request has left pinned because a transfer used them. With the rule
 * `fenceFrees` this happens after the steps in flight.
 */
export function giveKeptBack(s: SchedulerState, request: Request): void {
  const { id, keptBlocks } = request;
  if (keptBlocks === null) return;
  request.keptBlocks = null;
  if (mayBeWritten(s, request)) s.fencedFrees.push({ id, blocks: keptBlocks, after: s.numScheduledPlans });
  else s.core.native.unpin(lastFirst(keptBlocks));
}

/**
 * Whether the rule `fenceFrees` holds the request's blocks back, because a step in flight contains
 * it.
 */
function mayBeWritten({ config, connector, inFlight }: SchedulerState, request: Request): boolean {
  if (!config.fenceFrees || connector === null) return false;
  return inFlight.some((plan) => plan.indexOf(request) >= 0);
}

/**
 * The order in which a row frees its blocks. The beginnings of texts stay cached longest this way.
 */
function lastFirst(blocks: Int32Array): Int32Array {
  return blocks.reverse();
}

/**
 * Frees the blocks behind fences, in the order in which they were released.
 * @param all includes blocks whose steps are still in flight, because a forced reset of the prefix
 * cache has voided them
 */
export function releaseFenced(s: SchedulerState, all: boolean): void {
  const updated = s.numScheduledPlans - s.inFlight.length;
  const { fencedFrees } = s;
  while (fencedFrees.length > 0 && (all || fencedFrees[0].after <= updated)) {
    const { blocks } = fencedFrees.shift() as { blocks: Int32Array };
    s.core.native.unpin(lastFirst(blocks));
    s.blocksMoved = true;
  }
}

function giveRow(s: SchedulerState, { slot }: Request): void {
  s.core.push(PendingOp.release, slot, 0);
  s.blocksMoved = true;
}

/**
 * Preempts a running request and voids its outputs in flight: they are dropped when they arrive,
 * and computed again. The plan entries themselves are marked as dropped. vLLM counts tokens to
 * discard instead, and loses outputs with speculative decoding.
 * @param updating the plan that is being updated, which is no longer in flight
 */
export function preemptByForce(s: SchedulerState, request: Request, updating?: Plan): void {
  s.queues.remove(request);
  discardOutputs(s, request, updating);
  preempt(s, request);
}

/** Preempts a running request for a forced reset; like `preemptByForce`. */
export function preemptByReset(s: SchedulerState, request: Request): void {
  s.queues.remove(request);
  dropByReset(s, request);
  preempt(s, request);
}

function dropByReset(s: SchedulerState, request: Request): void {
  discardOutputs(s, request);
  dropEntries(s.inFlight, request, BY_RESET);
}

/**
 * Drops the outputs of steps in flight, and of the plan being updated, for a request that will be
 * computed again. Its next entry has `needsAllTokens`.
 */
export function discardOutputs(s: SchedulerState, request: Request, updating?: Plan): void {
  dropOutputs(s, request, updating);
  s.lastSteps[request.slot] = NEVER;
}

/** Drops the same outputs for a request that keeps its blocks and continues. */
export function dropOutputs(s: SchedulerState, request: Request, updating?: Plan): void {
  dropEntries(s.inFlight, request);
  if (updating !== undefined) dropEntries([updating], request);
  request.clock.isDisturbed = true;
  request.numOutputPlaceholders = 0;
}

function dropEntries(plans: readonly Plan[], request: Request, cause = DROPPED): void {
  for (const plan of plans) {
    const at = plan.indexOf(request);
    if (at >= 0) plan.dropped[at] = Math.max(plan.dropped[at], cause);
  }
}
