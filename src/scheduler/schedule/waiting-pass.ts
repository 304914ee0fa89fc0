import { channels } from '../../base/channels.js';
import { FAILED } from '../connector/ask-connector.js';
import { NO_MATCH } from '../connector/connector-answers.js';
import { leaveQueue, stopDeadline } from '../life/deadlines.js';
import { endUnreported } from '../life/finish.js';
import { endLoading } from '../life/loading.js';
import { reclaimRow, reclaimSession, reclaimStuckLoad } from '../life/reclaim.js';
import { endConnectorWait, waitForConnector } from '../life/wait-for-connector.js';
import { beginLoad } from '../loads/begin-load.js';
import { EntryKind, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { FinishCode, isBlocked } from '../request/status.js';
import { dropZombie } from '../state/guards.js';
import type { RequestQueue } from '../state/request-queue.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import {
  computedAtAdmission,
  matchPrefix,
  type Prefix,
  tokensToCompute,
  tokensToHold,
  tokensToReserve,
} from './admission.js';
import { endOutgrown } from './outgrown.js';

/** What `NativeCore.admit` answers instead of a row. */
const NO_FREE_ROW = -2;

/** With the deviation `limitLoadRetries`. */
const MAX_FAILED_LOADS = 3;

/**
 * The second half of vLLM's `schedule()`: admits waiting requests, best first, until the first one that does not fit.
 * Not called when something was preempted in this step, or while admission is paused. The budget is what
 * `plan.totalTokens` may grow to.
 */
export function waitingPass(s: SchedulerState, plan: Plan, tokenBudget: number): void {
  const { queues } = s;
  for (;;) {
    const queue = nextInLine(s, plan, tokenBudget);
    if (queue === null) break;
    const prefix = findPrefix(s, queue);
    if (prefix === null) continue;
    if (!admit(s, plan, queue, prefix, tokenBudget - plan.totalTokens)) break;
  }
  queues.endPass();
}

/**
 * Deals with those at the head of the line that cannot be admitted now, up to the first that can.
 * @returns the queue that it is the head of; null if no more are admitted in this step
 */
export function nextInLine(s: SchedulerState, plan: Plan, tokenBudget: number): RequestQueue | null {
  const { queues, config } = s;
  while (plan.totalTokens < tokenBudget && queues.running.length < config.maxNumSeqs) {
    const queue = queues.nextQueue();
    const request = queue?.peek();
    if (queue == null || request == null) return null;
    if (dropZombie(s, queue, request)) continue;
    if (isBlocked(request.status) && !promote(s, request)) {
      if (!request.isFinished) queues.passOver(queue, request);
      continue;
    }
    request.waitsForAdapter = !s.adapters.fits(plan, request, queues.running);
    if (request.waitsForAdapter) {
      queues.passOver(queue, request);
      continue;
    }
    if (!outgrows(s, request)) return queue;
    if (!endOutgrown(s, request)) return null;
  }
  return null;
}

/** Whether it has said more than the pool holds, or the model. */
export function outgrows(s: SchedulerState, request: Request): boolean {
  return request.numTokens > s.slotLimit || isFull(s, request);
}

/** Not for a request whose earlier load is under way still, or failed again and again, or would never end: it computes by itself. */
export function asksConnector({ connector, config }: SchedulerState, request: Request): boolean {
  // Two loads of one request at a time could not be told apart in their reports.
  if (connector === null || request.outstanding?.hasPeer('load', undefined)) return false;
  if (!config.deviations.limitLoadRetries) return true;
  // Of a single token nothing is left when it was loaded, since the last one is computed anyway.
  return request.numFailedLoads < MAX_FAILED_LOADS && request.numTokens > 1;
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
  if (request.status === 'WAITING_FOR_REMOTE_KVS') return endLoading(s, request);
  if (request.status !== 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR') return false;
  const ready = s.grammars.askReady(request);
  if (ready === 0) return false;
  if (ready !== 1) {
    endUnreported(s, request, FinishCode.error);
    return false;
  }
  stopDeadline(s, request);
  request.status = 'WAITING';
  request.waitingSince = s.now;
  return true;
}

/**
 * Looks for the prefix of the request at the head of the line.
 * @returns null if the connector asks for patience, so that the request is passed over, or failed, and it ended with it
 */
export function findPrefix(s: SchedulerState, queue: RequestQueue): Prefix | null {
  const request = queue.peek() as Request;
  if (request.numComputedTokens > 0) {
    const numHeld = s.core.blocks(request.slot).length;
    return { request, fresh: false, numHits: 0, numHeld, external: NO_MATCH };
  }
  const numHits = matchPrefix(s, request);
  const local: Prefix = { request, fresh: true, numHits, numHeld: 0, external: NO_MATCH };
  if (s.connector === null || !asksConnector(s, request)) return local;
  const external = s.connector.askMatch(request, numHits * s.config.blockSize);
  if (external === FAILED) {
    endUnreported(s, request, FinishCode.error);
    return null;
  }
  if (external.numTokens === null) {
    waitForConnector(s, queue, request, external.wakes);
    return null;
  }
  endConnectorWait(s, request);
  return { ...local, external };
}

/**
 * Admits one request: its cached prefix, blocks for its next chunk, a row, a place in the plan; or, if its prefix has to be
 * loaded first, a place among those that wait.
 * @returns false if it does not fit, and nothing was changed
 */
function admit(s: SchedulerState, plan: Plan, queue: RequestQueue, prefix: Prefix, budget: number): boolean {
  const { config } = s;
  const { request, fresh, numHits, external } = prefix;
  const computed = computedAtAdmission(s, prefix);
  const numNew = external.async ? 0 : tokensToCompute(config, request.numTokens - computed, budget);
  if (numNew < 0) return false;
  const needed = tokensToHold(s, fresh, computed + numNew);
  const reserved = tokensToReserve(s, request);
  // What is still to be loaded must not be found.
  const publishes = config.enablePrefixCaching && !external.async;
  const publishTo = publishes ? Math.min(computed + numNew, request.numTokens) : 0;
  const take = (): number => s.core.native.admit(request.slot, numHits, reserved, needed, publishTo);
  let row = take();
  while (row < 0 && findRoom(s, plan, request, row === NO_FREE_ROW)) row = take();
  if (row < 0) {
    if (row === NO_FREE_ROW) s.counters.rowStalls++;
    return false;
  }
  // A session may hold more than it needs now: what lay behind a stop in its last answer.
  const numBlocks = fresh ? Math.ceil(needed / config.blockSize) : s.core.blocks(request.slot).length;
  enter(s, plan, queue, prefix, numNew, numBlocks);
  return true;
}

/**
 * Takes a row or blocks from somebody who does not run, for a request that found none.
 * @param lacksRow what it lacks is a row
 * @returns false if nobody has any to give
 */
export function findRoom(s: SchedulerState, plan: Plan, request: Request, lacksRow: boolean): boolean {
  return (lacksRow && reclaimRow(s)) || reclaimSession(s, request) || reclaimStuckLoad(s, plan, request);
}

/**
 * The request has its row and its blocks: it enters the plan, or, if its prefix has to be loaded first, those that wait. If
 * its connector fails now, it ends.
 * @param numNew tokens to compute in this step
 * @param numBlocks blocks of its row
 */
export function enter(
  s: SchedulerState,
  plan: Plan,
  queue: RequestQueue,
  prefix: Prefix,
  numNew: number,
  numBlocks: number,
): void {
  const { request, fresh, numHits, external } = prefix;
  const computed = computedAtAdmission(s, prefix);
  const local = fresh ? numHits * s.config.blockSize : computed;
  if (fresh) countLookup(s, request, local, external.numTokens ?? 0);
  if (s.connector !== null && !beginLoad(s, plan, request, external, local)) return;
  request.numComputedTokens = computed;
  if (external.async) s.queues.parkLoading(queue, request);
  else enterPlan(s, plan, request, numNew, numBlocks, fresh ? numHits : prefix.numHeld);
}

/** Lookups are counted once per admission; vLLM counts again each time that a request is looked up and does not fit. */
function countLookup(s: SchedulerState, request: Request, hitTokens: number, externalTokens: number): void {
  const { counters } = s;
  if (request.numCachedTokens < 0) {
    request.numCachedTokens = hitTokens + externalTokens;
    counters.promptTokens += request.numPromptTokens;
  }
  if (s.connector !== null) {
    counters.externalQueries += request.numTokens - hitTokens;
    counters.externalHits += externalTokens;
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

function enterPlan(
  s: SchedulerState,
  plan: Plan,
  request: Request,
  numNew: number,
  numBlocks: number,
  numHitBlocks: number,
): void {
  const resumed = request.status === 'PREEMPTED';
  const at = plan.push(request, numNew, resumed ? EntryKind.resumed : EntryKind.new);
  plan.numBlocks[at] = numBlocks;
  plan.numNewBlocks[at] = numBlocks;
  plan.numHitBlocks[at] = numHitBlocks;
  plan.numDraftTokens[at] = 0;
  s.queues.remove(request);
  s.queues.pushRunning(request);
  s.adapters.enter(plan, request);
  request.status = 'RUNNING';
  request.waitingSince = s.now;
  leaveQueue(s, request);
  request.admittedStep = plan.step;
  if (request.firstScheduledAt < 0) {
    request.firstScheduledAt = s.now;
    s.backlog.leave(request, s.now, true);
  }
  if (channels.admit.hasSubscribers) {
    const { id, handle } = request;
    channels.admit.publish({ id, handle, numComputedTokens: plan.numComputedTokens[at], resumed });
  }
}
