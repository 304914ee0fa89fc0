import { PendingOp } from '../core/core.js';
import { finish } from './finish.js';
import { EntryKind, type Plan } from './plan.js';
import { preempt } from './preempt.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { FinishReason } from './status.js';

/**
 * The first half of vLLM's `schedule()`: gives every running request its next tokens, in order, and preempts when the
 * pool runs dry. Returns the token budget that is left.
 *
 * Requests are planned in runs, and one native call takes the blocks for a whole run; it stops at the first entry that
 * does not fit. So a decode step of any size is one call. The result is that of planning one by one: an entry depends on
 * earlier ones only through the budget, which is known without asking for blocks.
 */
export function runningPass(s: SchedulerState, plan: Plan, tokenBudget: number): number {
  const { running } = s.queues;
  const { native } = s.core;
  let budget = tokenBudget;
  let next = 0;
  while (next < running.length && budget > 0) {
    const from = plan.numRequests;
    const end = planRun(s, plan, next, budget);
    const to = plan.numRequests;
    if (from === to) break;
    const done = native.run(plan.frame, from, to);
    budget -= sumTokens(plan, from, from + done);
    next = end;
    if (from + done === to) continue;

    const at = from + done;
    const request = plan.requests[at];
    const numScheduled = plan.numScheduledTokens[at];
    plan.numRequests = at;
    next = running.indexOf(request);
    const room = makeRoom(s, plan, request, numScheduled);
    budget += room.tokensBack;
    if (!room.fits) break;
    budget -= numScheduled;
    next += 1 - room.entriesBack;
  }
  return budget;
}

/** Plans running requests from index `from` on until the budget is used up; returns the index after the last one seen. */
function planRun(s: SchedulerState, plan: Plan, from: number, tokenBudget: number): number {
  const { running } = s.queues;
  const { maxDrafts, lookahead, poolTokens } = s;
  const threshold = s.config.longPrefillTokenThreshold || Number.MAX_SAFE_INTEGER;
  const lastPosition = s.config.maxModelLen - 1;
  const outgrown = s.config.deviations.endOutgrown ? poolTokens - lookahead : Number.MAX_SAFE_INTEGER;
  let budget = tokenBudget;
  let i = from;
  for (; i < running.length && budget > 0; i++) {
    const request = running[i];
    const computed = request.numComputedTokens;
    const placeholders = request.numOutputPlaceholders;
    // The steps in flight are sure to bring the last token that it may generate.
    if (placeholders > 0 && computed + 2 - placeholders >= request.promptPlusMaxTokens) continue;
    let numNew = request.numTokens + request.numDraftTokens + placeholders - computed;
    if (numNew > threshold) numNew = threshold;
    if (numNew > budget) numNew = budget;
    if (numNew > lastPosition - computed) numNew = lastPosition - computed;
    if (numNew <= 0) continue;
    if (computed + numNew > outgrown) {
      if (endOutgrown(s, request)) i--;
      continue;
    }
    const at = plan.push(request, numNew, EntryKind.running);
    if (maxDrafts > 0) planDrafts(s, plan, at, request, numNew + computed - request.numTokens - placeholders);
    budget -= numNew;
  }
  return i;
}

/** Copies the drafts that fit into the scheduled tokens: those beyond the known tokens, cut from the end. */
function planDrafts(s: SchedulerState, plan: Plan, at: number, request: Request, room: number): void {
  const count = request.numDraftTokens === 0 || room < 0 ? 0 : Math.min(room, request.numDraftTokens);
  plan.numDraftTokens[at] = count;
  const source = request.slot * s.maxDrafts;
  for (let j = 0; j < count; j++)
    plan.draftTokens[at * s.maxDrafts + j] = s.pipelined ? -1 : s.drafts[source + j];
}

function sumTokens(plan: Plan, from: number, to: number): number {
  let sum = 0;
  for (let i = from; i < to; i++) sum += plan.numScheduledTokens[i];
  return sum;
}

/**
 * Ends a request that needs more blocks than the whole pool has, once nothing is in flight for it any more.
 * @returns whether it left `running`
 */
function endOutgrown(s: SchedulerState, request: Request): boolean {
  if (request.numOutputPlaceholders > 0) return false;
  finish(s, request, FinishReason.length);
  s.endedInSchedule.push(request);
  return true;
}

interface Room {
  /** The entry got its blocks and stands in the plan again. */
  fits: boolean;
  /** Scheduled tokens that victims gave back. */
  tokensBack: number;
  /** Entries that victims left in the plan before this one. */
  entriesBack: number;
}

/**
 * Preempts victims until the entry that follows the plan gets its blocks, or is the victim itself.
 *
 * Victims are the last admitted (fcfs), or the worst by priority and arrival, the first of equals (priority). As in vLLM
 * a victim that stands before the entry in `running` but not in the plan does not shift the caller's index, so that the
 * request after the entry is passed over once.
 */
function makeRoom(s: SchedulerState, plan: Plan, request: Request, numScheduled: number): Room {
  const room: Room = { fits: false, tokensBack: 0, entriesBack: 0 };
  const draftRow = plan.numRequests;
  const numDrafts = plan.numDraftTokens[draftRow];
  for (;;) {
    const victim = chooseVictim(s);
    s.queues.remove(victim);
    const entry = victim === request ? -1 : plan.indexOf(victim);
    if (entry >= 0) {
      unschedule(s, plan, entry, victim);
      room.tokensBack += plan.removeEntry(entry);
      room.entriesBack++;
    }
    preempt(s, victim);
    plan.preempted.push(victim.id);
    if (victim === request) return room;

    const at = plan.push(request, numScheduled, EntryKind.running);
    if (s.maxDrafts > 0) planDrafts(s, plan, at, request, numDrafts);
    if (s.core.native.run(plan.frame, at, at + 1) === 1) {
      room.fits = true;
      return room;
    }
    plan.numRequests = at;
  }
}

function chooseVictim(s: SchedulerState): Request {
  const { running } = s.queues;
  if (s.config.policy === 'fcfs') return running[running.length - 1];
  let worst = running[0];
  for (const request of running) {
    if (request.priority > worst.priority) worst = request;
    else if (request.priority === worst.priority && request.arrivalTime > worst.arrivalTime) worst = request;
  }
  return worst;
}

/** A victim of this very step: nobody will compute the chunk that it was scheduled for, so its hashes must go. */
function unschedule(s: SchedulerState, plan: Plan, entry: number, victim: Request): void {
  if (!s.config.deviations.evictUnscheduled) return;
  const firstUncomputed = Math.floor(plan.numComputedTokens[entry] / s.config.blockSize);
  s.core.push(PendingOp.evict, victim.slot, firstUncomputed);
}
