import { enterAdapter, fitsAdapters } from './adapters.js';
import { askReady } from './ask-grammar.js';
import { channels } from './channels.js';
import { stopDeadline } from './deadlines.js';
import { endUnreported } from './finish.js';
import { dropZombie } from './guards.js';
import { endOutgrown } from './outgrown.js';
import { EntryKind, type Plan } from './plan.js';
import { reclaimSession } from './reclaim.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { FinishReason, isBlocked } from './status.js';

/** What `NativeCore.admit` answers instead of a row. */
const NO_FREE_ROW = -2;

/**
 * The second half of vLLM's `schedule()`: admits waiting requests, best first, until the first one that does not fit.
 * Not called when something was preempted in this step, or while admission is paused. The budget is what
 * `plan.totalTokens` may grow to.
 */
export function waitingPass(s: SchedulerState, plan: Plan, tokenBudget: number): void {
  const { queues, config } = s;
  while (plan.totalTokens < tokenBudget && queues.running.length < config.maxNumSeqs) {
    const queue = queues.nextQueue();
    const request = queue?.peek();
    if (queue == null || request == null) break;
    if (dropZombie(s, queue, request)) continue;
    if (isBlocked(request.status) && !promote(s, request)) {
      if (!request.isFinished) queues.passOver(queue, request);
      continue;
    }
    request.waitsForAdapter = !fitsAdapters(s, plan, request);
    if (request.waitsForAdapter) {
      queues.passOver(queue, request);
      continue;
    }
    if (request.numTokens > s.slotLimit || isFull(s, request)) {
      if (endOutgrown(s, request)) continue;
      break;
    }
    if (!admit(s, plan, request, tokenBudget - plan.totalTokens)) break;
  }
  queues.endPass();
}

/** Whether a session has said so much that no answer to its next chunk fits the model. `add` refuses such a prompt. */
function isFull({ config }: SchedulerState, { session, numTokens }: Request): boolean {
  return session !== null && config.deviations.refuseUnfit && numTokens >= config.maxModelLen;
}

/**
 * A blocked request that need not wait any longer may be admitted in the same pass. A session that waits for input
 * stands in no queue that this pass sees.
 * @returns false if it is still blocked, or ended because its grammar failed
 */
function promote(s: SchedulerState, request: Request): boolean {
  if (request.status !== 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR') return false;
  const ready = askReady(s, request);
  if (ready === 0) return false;
  if (ready !== 1) {
    endUnreported(s, request, FinishReason.error);
    return false;
  }
  stopDeadline(s, request);
  request.status = 'WAITING';
  request.waitingSince = s.now;
  return true;
}

/**
 * Admits one request: its cached prefix, blocks for its next chunk, a row, a place in the plan.
 * @returns false if it does not fit, and nothing was changed
 */
function admit(s: SchedulerState, plan: Plan, request: Request, budget: number): boolean {
  const { config } = s;
  const { native } = s.core;
  const fresh = request.numComputedTokens === 0;
  const numHits = fresh ? matchPrefix(s, request) : 0;
  const computed = fresh ? numHits * config.blockSize : request.numComputedTokens;

  let numNew = request.numTokens - computed;
  if (config.longPrefillTokenThreshold > 0) numNew = Math.min(numNew, config.longPrefillTokenThreshold);
  if (numNew > budget) {
    if (!config.enableChunkedPrefill) return false;
    numNew = budget;
  }
  const known = Math.min(request.numTokens, config.maxModelLen);
  const needed = Math.min(computed + numNew + (fresh ? 0 : s.lookahead), s.slotLimit);
  const reserved = config.reserveFullIsl ? known : 0;
  const publishTo = config.enablePrefixCaching ? Math.min(computed + numNew, request.numTokens) : 0;
  let row = native.admit(request.slot, numHits, reserved, needed, publishTo);
  while (row < 0 && reclaimSession(s, request)) {
    row = native.admit(request.slot, numHits, reserved, needed, publishTo);
  }
  if (row < 0) {
    if (row === NO_FREE_ROW) s.counters.rowStalls++;
    return false;
  }
  request.numComputedTokens = computed;
  if (fresh) countLookup(s, request, computed);
  // A session may hold more than it needs now: what lay behind a stop in its last answer.
  const numBlocks = fresh ? Math.ceil(needed / config.blockSize) : s.core.blocks(request.slot).length;
  enterPlan(s, plan, request, numNew, numBlocks);
  return true;
}

/** Cached leading blocks. Never the last token's: one token must be computed to sample from. */
function matchPrefix(s: SchedulerState, request: Request): number {
  if (!s.config.enablePrefixCaching) return 0;
  const hits = s.core.native.match(request.slot, Math.floor((request.numTokens - 1) / s.config.blockSize));
  return s.dropLastHit && hits > 0 ? hits - 1 : hits;
}

/** Lookups are counted once per admission; vLLM counts again each time that a request is looked up and does not fit. */
function countLookup(s: SchedulerState, request: Request, hitTokens: number): void {
  const { counters } = s;
  if (request.numCachedTokens < 0) {
    request.numCachedTokens = hitTokens;
    counters.promptTokens += request.numPromptTokens;
  }
  if (!s.config.enablePrefixCaching) return;
  if (request.numPreemptions > 0) {
    counters.preemptedRequests++;
    counters.preemptedQueries += request.numTokens;
    counters.preemptedHits += hitTokens;
  } else {
    counters.prefixCacheRequests++;
    counters.prefixCacheQueries += request.numTokens;
    counters.prefixCacheHits += hitTokens;
  }
}

function enterPlan(s: SchedulerState, plan: Plan, request: Request, numNew: number, numBlocks: number): void {
  const resumed = request.status === 'PREEMPTED';
  const at = plan.push(request, numNew, resumed ? EntryKind.resumed : EntryKind.new);
  plan.numBlocks[at] = numBlocks;
  plan.numNewBlocks[at] = numBlocks;
  plan.numDraftTokens[at] = 0;
  s.queues.remove(request);
  s.queues.pushRunning(request);
  enterAdapter(s, plan, request);
  request.status = 'RUNNING';
  request.waitingSince = s.now;
  request.admittedStep = plan.step;
  if (request.firstScheduledAt < 0) request.firstScheduledAt = s.now;
  if (channels.admit.hasSubscribers) {
    const { id, handle } = request;
    channels.admit.publish({ id, handle, numComputedTokens: plan.numComputedTokens[at], resumed });
  }
}
