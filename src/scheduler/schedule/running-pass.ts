import { Control } from '../../core/core.js';
import { heldBlocks } from '../../core/rows.js';
import { keepDropped, preempt } from '../life/preempt.js';
import { reclaimSession, reclaimStuckLoad } from '../life/reclaim.js';
import { EntryKind, type Plan } from '../plan/plan.js';
import { keptInFlight, noteInFlight } from '../plan/tokens-in-flight.js';
import { compareIds } from '../request/id-order.js';
import { isUsed } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { forgetRow } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { alignedTokens } from './group-admission.js';
import { endOutgrown, tokensLeft } from './line.js';

/** More tokens than any request has; a small integer, so that the loops stay in small-integer arithmetic. */
const MAX_TOKENS = 2 ** 30;

/** Returned by `takeFromOthers` instead of a count: the needy request itself was preempted. */
export const ITSELF = -1;
/**
 * Returned by `takeFromOthers`: no request has blocks to give, so none was preempted. The needy
 * request has no entry in this step and keeps running.
 */
export const NOBODY = -2;

/**
 * The first half of vLLM's `schedule()`: every running request gets its next tokens, in order of
 * admission. Preempts when the pool has no free blocks.
 *
 * Requests are planned in runs: one native call takes the blocks for a whole run, and stops at the first entry that
 * gets none. So a decode step of any size costs one call. Planning one by one would give the same
 * plan. An entry depends on earlier entries only through the token budget, which is known without
 * taking blocks.
 * @param tokenBudget limit of `plan.totalTokens`
 */
export function runningPass(s: SchedulerState, plan: Plan, tokenBudget: number): void {
  const { running } = s.queues;
  let next = 0;
  for (;;) {
    const left = tokensLeft(s, plan, tokenBudget);
    if (next >= running.length || left <= 0) break;
    const from = plan.numRequests;
    const numSteady = next === 0 && s.steady !== null ? s.steady.plan(plan) : 0;
    next = planRun(s, plan, numSteady > 0 ? s.queues.numSteady : next, left - numSteady);
    if (plan.numRequests === from) break;
    const at = from + run(s, plan, from);
    if (at === plan.numRequests) continue;
    if (numSteady > 0) s.steady?.breakUpIn(plan);

    const request = plan.requests[at];
    const numScheduled = plan.numScheduledTokens[at];
    plan.truncate(at);
    next = running.indexOf(request);
    const entriesBack = makeRoom(s, plan, request, numScheduled);
    if (entriesBack === ITSELF) break;
    next = indexBehind(s, request, next, entriesBack);
  }
}

/**
 * Index in `running` at which the pass continues after a request for which room was made.
 * @param index the request's index before room was made
 * @param entriesBack number of victims that left the plan, or `NOBODY`
 */
export function indexBehind(s: SchedulerState, request: Request, index: number, entriesBack: number): number {
  if (entriesBack === NOBODY || s.config.deviations.priorityCursor)
    return s.queues.running.indexOf(request) + 1;
  return index + 1 - entriesBack;
}

/**
 * Plans running requests from index `from` on, until the budget is used up. This is the inner loop
 * of every step: columns and limits are in locals, and all numbers are small integers.
 * @param tokenBudget tokens that the first of them may get, see `tokensLeft`
 * @returns index after the last request that was considered
 */
export function planRun(s: SchedulerState, plan: Plan, from: number, tokenBudget: number): number {
  const { running } = s.queues;
  const { requests, slots, kinds, numScheduledTokens, numComputedTokens, maxOutputTokens } = plan;
  const pipelined = s.pipelined === true;
  const drafting = s.maxDrafts > 0;
  const draftSlots = s.config.draftSlots | 0;
  const threshold = s.config.longPrefillTokenThreshold || MAX_TOKENS;
  const lastPosition = s.config.maxModelLen - 1;
  const slotLimit = s.slotLimit | 0;
  const aligns = s.groups.alignsSteps;
  const ends = s.endsOutgrown === true;
  const kind = EntryKind.running;
  const first = plan.numRequests;
  let at = first;
  let budget = tokenBudget | 0;
  let i = from | 0;
  for (; i < running.length && budget > 0; i++) {
    const request = running[i];
    // For requests after a steady decode these are the counts themselves.
    const computed = request.computedBase;
    const placeholders = pipelined ? request.placeholdersBase : 0;
    const known = request.tokensBase + placeholders;
    // The steps in flight are sure to bring the last token that the request may generate.
    if (placeholders > 0 && computed + 2 - placeholders >= request.promptPlusMaxTokens) continue;
    let numNew = known - computed;
    if (drafting) numNew += request.numDraftTokens;
    if (numNew > threshold) numNew = threshold;
    if (numNew > budget) numNew = budget;
    if (numNew > lastPosition - computed) numNew = lastPosition - computed;
    if (numNew > slotLimit - computed) numNew = slotLimit - computed;
    if (aligns && numNew > 0) numNew = alignedTokens(s, request, known, computed, numNew);
    if (numNew <= 0) {
      if (!ends || computed < slotLimit) continue;
      // A callback about the end may ask how much of the preceding requests is settled.
      plan.numRequests = at;
      if (endOutgrown(s, request)) i--;
      continue;
    }
    // In steady decode the same request is here already, and storing an object costs more than
    // comparing one.
    if (requests[at] !== request) requests[at] = request;
    kinds[at] = kind;
    slots[at] = request.slot;
    numScheduledTokens[at] = numNew;
    numComputedTokens[at] = computed;
    request.computedBase = computed + numNew;
    maxOutputTokens[at] = computed + numNew < known ? 0 : 1;
    if (drafting) planDrafts(s, plan, at, request, computed + numNew - known);
    at++;
    budget -= numNew + draftSlots;
  }
  plan.totalTokens += tokenBudget - budget - draftSlots * (at - first);
  plan.numRequests = at;
  return i;
}

/**
 * Copies the drafts of a request into its entry; drafts that do not fit are cut from the end.
 * @param room scheduled tokens of the entry beyond the known tokens of its request
 */
function planDrafts(s: SchedulerState, plan: Plan, at: number, request: Request, room: number): void {
  const count = request.numDraftTokens === 0 || room < 0 ? 0 : Math.min(room, request.numDraftTokens);
  plan.numDraftTokens[at] = count;
  if (plan.maxOutputTokens[at] > 0) plan.maxOutputTokens[at] = 1 + count;
  const source = request.slot * s.maxDrafts;
  for (let j = 0; j < count; j++)
    plan.draftTokens[at * s.maxDrafts + j] = s.pipelined ? -1 : s.drafts[source + j];
}

/**
 * Takes blocks from other requests until the entry that found none gets its own, and puts that entry back into the
 * plan.
 * @returns number of victims that left the plan, or `ITSELF`, or `NOBODY`
 */
function makeRoom(s: SchedulerState, plan: Plan, request: Request, numScheduled: number): number {
  const numDrafts = plan.numDraftTokens[plan.numRequests];
  let entriesBack = 0;
  for (;;) {
    const at = planAgain(s, plan, request, numScheduled, numDrafts);
    if (takeBlocks(s, plan, at)) return entriesBack;
    plan.truncate(at);
    const left = takeFromOthers(s, plan, request);
    if (left < 0) return left;
    entriesBack += left;
  }
}

/**
 * Appends to the plan an entry that found no blocks, with its former tokens and drafts.
 * @returns index of the entry
 */
export function planAgain(
  s: SchedulerState,
  plan: Plan,
  request: Request,
  numScheduled: number,
  numDrafts: number,
): number {
  const at = plan.push(request, numScheduled, EntryKind.running);
  if (s.maxDrafts > 0) planDrafts(s, plan, at, request, numDrafts);
  return at;
}

/**
 * Frees blocks for a running request that found none: reclaims them from one request that does not
 * run, or else preempts one victim. The victim is the last admitted (policy `fcfs`), or the worst
 * by priority and arrival time (policy
 * `priority`; for ties see the deviation `victimTies`).
 * @returns number of entries that left the plan with the victim, 0 or 1; or `ITSELF`, or `NOBODY`
 */
export function takeFromOthers(s: SchedulerState, plan: Plan, request: Request): number {
  if (reclaimSession(s, request) || reclaimStuckLoad(s, plan, request)) return 0;
  const victim = chooseVictim(s);
  if (victim === null) return NOBODY;
  s.queues.remove(victim);
  const entry = victim === request ? -1 : plan.indexOf(victim);
  if (entry >= 0) {
    unschedule(s, plan, entry, victim);
    plan.removeEntry(entry);
  }
  preempt(s, victim);
  plan.preempted.push(victim.id);
  plan.preemptedHandles.push(victim.handle);
  if (victim === request) return ITSELF;
  return entry >= 0 ? 1 : 0;
}

/**
 * Takes blocks from the pool for the plan's entries from index `from` on.
 * @returns number of entries that got their blocks
 */
function run(s: SchedulerState, plan: Plan, from: number): number {
  if (s.keepsInFlight) noteInFlight(s.inFlight, plan, from, s.core.frames);
  if (s.config.kvGroups !== null && s.usedRequests.size > 0) keepUsed(s, plan, from);
  const count = s.core.native.run(plan.frame, from, plan.numRequests);
  s.blocksMoved = false;
  return count;
}

/**
 * Keeps the blocks that entries from index `from` on drop in this step, as far as transfers use
 * them.
 */
function keepUsed(s: SchedulerState, plan: Plan, from: number): void {
  for (const request of s.usedRequests) {
    const at = plan.indexOf(request);
    if (at < from) continue;
    const inFlight = s.core.frames[plan.frame].numInFlightTokens[at];
    // The plan does not have the computed tokens of a steady decode yet.
    const computed = request.numComputedTokens - plan.numScheduledTokens[at];
    keepDropped(s, request, Math.max(0, computed - inFlight));
  }
}

/**
 * Takes blocks for one entry. Near the maximum that the pool can hold, fewer lookahead slots are
 * taken, so that a lone request can use the last slot.
 * @returns false if there are not enough free blocks
 */
function takeBlocks(s: SchedulerState, plan: Plan, at: number): boolean {
  const request = plan.requests[at];
  const after = plan.numComputedTokens[at] + plan.numScheduledTokens[at];
  if (after + s.lookahead <= s.slotLimit) return run(s, plan, at) === 1;
  const { blockSize, enablePrefixCaching, kvGroups } = s.config;
  if (kvGroups !== null) return takeLastBlocks(s, plan, at);
  const held = s.core.blocks(request.slot).length;
  const publishTo = enablePrefixCaching ? Math.min(after, request.numTokens) : 0;
  if (s.core.native.admit(request.slot, 0, 0, s.slotLimit, publishTo) < 0) return false;
  s.blocksMoved = true;
  plan.numBlocks[at] = Math.ceil(s.slotLimit / blockSize);
  plan.numNewBlocks[at] = plan.numBlocks[at] - held;
  return true;
}

/** Like `takeBlocks` near the end of the pool, with KV cache groups. */
function takeLastBlocks(s: SchedulerState, plan: Plan, at: number): boolean {
  const { slot, numPromptTokens: prompt } = plan.requests[at];
  const before = plan.numComputedTokens[at];
  const inFlight = keptInFlight(s, plan.requests[at]);
  keepDropped(s, plan.requests[at], Math.max(0, before - inFlight));
  const scheduled = plan.numScheduledTokens[at];
  const lookahead = Math.max(s.slotLimit - before - scheduled, 0);
  const lengths = plan.groups.map((_, g) => s.core.blocks(slot, g).length);
  const kept = [0, 0, inFlight, prompt] as const;
  if (s.core.native.admitGroups(slot, 0, 0, before, scheduled, lookahead, 0, true, ...kept) < 0) return false;
  s.blocksMoved = true;
  for (const [g, group] of plan.groups.entries()) {
    group.numBlocks[at] = s.core.control[Control.groupBlocks + g];
    group.numNewBlocks[at] = group.numBlocks[at] - lengths[g];
  }
  return true;
}

/**
 * Chooses the victim of a preemption. A request is skipped if a transfer uses its blocks, or if all
 * its blocks are pinned: its preemption would free no block (vLLM #49675).
 * @returns null if no running request has blocks to give
 */
function chooseVictim(s: SchedulerState): Request | null {
  const { running } = s.queues;
  const mayHoldOn = s.pins.size > 0 || running.some(isUsed);
  const givers = mayHoldOn ? running.filter((request) => givesBlocks(s, request)) : running;
  return givers.length > 0 ? worstOf(s, givers) : null;
}

function givesBlocks(s: SchedulerState, request: Request): boolean {
  return !isUsed(request) && heldBlocks(s.core, request.slot).some((block) => !s.pins.has(block));
}

function worstOf(s: SchedulerState, candidates: readonly Request[]): Request {
  if (s.config.policy === 'fcfs') return candidates[candidates.length - 1];
  const { victimTies } = s.config.deviations;
  let worst = candidates[0];
  for (const request of candidates) {
    if (request.priority !== worst.priority) {
      if (request.priority > worst.priority) worst = request;
    } else if (request.arrivalTime !== worst.arrivalTime) {
      if (request.arrivalTime > worst.arrivalTime) worst = request;
    } else if (victimTies && compareIds(request.id, worst.id) > 0) worst = request;
  }
  return worst;
}

/**
 * Removes the hashes of the chunk for which a victim was scheduled in this very step, because no
 * step will compute that chunk.
 */
function unschedule(s: SchedulerState, plan: Plan, entry: number, victim: Request): void {
  if (!s.config.deviations.evictUnscheduled) return;
  forgetRow(s, victim.slot, plan.numComputedTokens[entry]);
}
