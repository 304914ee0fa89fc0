import { channels } from '../../base/channels.js';
import { FAILED } from '../connector/ask-connector.js';
import { NO_MATCH } from '../connector/connector-answers.js';
import { leaveQueue } from '../life/deadlines.js';
import { endUnreported } from '../life/finish.js';
import { reclaimOwn, reclaimRow, reclaimSession, reclaimStuckLoad } from '../life/reclaim.js';
import { endConnectorWait, waitForConnector } from '../life/wait-for-connector.js';
import { beginLoad } from '../loads/begin-load.js';
import { EntryKind, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { RequestQueue } from '../state/request-queue.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import {
  blocksToSpare,
  computedAtAdmission,
  matchPrefix,
  type Prefix,
  tokensToCompute,
  tokensToHold,
  tokensToReserve,
} from './admission.js';
import { alignedTokens, noteGroups, refusesMatch, takeGroups } from './group-admission.js';
import { endOutgrown, nextInLine, tokensLeft } from './line.js';
import { draftsToPad, padEntry } from './padding.js';
import { reservedBlocks } from './reserved-blocks.js';

/** Returned by `NativeCore.admit` when there is no free row. */
const NO_FREE_ROW = -2;

/**
 * With the deviation `limitLoadRetries`: the number of failed loads after which a request computes
 * by itself.
 */
const MAX_FAILED_LOADS = 3;

/**
 * The second half of vLLM's `schedule()`: admits waiting requests, best first, until the first that does not fit. It is
 * skipped when a request was preempted in this step, and while admission is paused.
 * @param tokenBudget limit of `plan.totalTokens`
 */
export function waitingPass(s: SchedulerState, plan: Plan, tokenBudget: number): void {
  const { queues } = s;
  for (;;) {
    const queue = nextInLine(s, plan, tokenBudget);
    if (queue === null) break;
    const prefix = findPrefix(s, queue);
    if (prefix === null) continue;
    if (!admit(s, plan, queue, prefix, tokensLeft(s, plan, tokenBudget))) break;
  }
  queues.endPass();
}

/**
 * Whether the connector is asked what it can load for a request. It is not asked while an earlier load of the request
 * is under way. With the deviation `limitLoadRetries` it is not asked after three failed loads
 * either. Nor is it asked for a request of a single token, which would be loaded again for ever.
 */
export function asksConnector({ connector, config }: SchedulerState, request: Request): boolean {
  // Reports could not distinguish two simultaneous loads of one request.
  if (connector === null || request.outstanding?.hasPeer('load', undefined)) return false;
  if (!config.deviations.limitLoadRetries) return true;
  // The last token of a request is always computed, so loading a single token saves nothing.
  return request.numFailedLoads < MAX_FAILED_LOADS && request.numTokens > 1;
}

/**
 * Looks up the prefix of the request at the head of a queue: in the local prefix cache, and after
 * that in the connector.
 * @returns null if the connector cannot say yet, so that the request is passed over; or if the
 * connector failed, so that the request ended
 */
export function findPrefix(s: SchedulerState, queue: RequestQueue): Prefix | null {
  const request = queue.peek() as Request;
  if (request.numComputedTokens > 0) {
    const numHeld = s.config.kvGroups === null ? s.core.blocks(request.slot).length : 0;
    return { request, fresh: false, numHits: 0, numHeld, external: NO_MATCH };
  }
  const numHits = matchPrefix(s, request);
  const local: Prefix = { request, fresh: true, numHits, numHeld: 0, external: NO_MATCH };
  if (s.connector === null || !asksConnector(s, request)) return local;
  const numLocal = numHits * s.groups.hashBlockSize;
  const external = s.connector.askMatch(request, numLocal);
  if (external === FAILED) {
    endUnreported(s, request, FinishCode.error);
    return null;
  }
  if (external.numTokens === null) {
    waitForConnector(s, queue, request, external.wakes);
    return null;
  }
  endConnectorWait(s, request);
  const numExternal = external.numTokens ?? 0;
  if (refusesMatch(s, request, numLocal, numExternal)) {
    s.counters.refusedMatches++;
    return local;
  }
  // The last token has to be computed. After an asynchronous load it is left out when the load has
  // ended.
  const isWhole = !external.async && numLocal + numExternal === request.numTokens;
  return { ...local, external: isWhole ? { ...external, numTokens: numExternal - 1 } : external };
}

/**
 * Admits one request: takes its row and its blocks, and enters it into the plan. A request whose
 * prefix must be loaded first waits for its load instead.
 * @param budget tokens that are left to the step
 * @returns false if the request does not fit. It then stays in its queue, as it does if its prefix
 * has to be looked up again
 */
function admit(s: SchedulerState, plan: Plan, queue: RequestQueue, prefix: Prefix, budget: number): boolean {
  const { config } = s;
  const { request, fresh, numHits, external } = prefix;
  const computed = computedAtAdmission(s, prefix);
  const missing = request.numTokens - computed;
  let numDrafts = missing === 1 && !external.async ? draftsToPad(s, plan, request) : 0;
  if (numDrafts > 0 && (1 + numDrafts > budget || computed + 1 + numDrafts > config.maxModelLen))
    return false;
  let numNew = external.async ? 0 : tokensToCompute(config, missing + numDrafts, budget);
  if (numNew < 0) return endUndivided(s, request, missing);
  if (s.groups.alignsSteps) numNew = alignedTokens(s, request, request.numTokens, computed, numNew);
  if (numNew < 1 + numDrafts && config.deviations.padWholeRows) numDrafts = 0;
  if (numDrafts === 0) numNew = Math.min(numNew, missing);
  if (numNew === 0 && config.kvGroups !== null && !external.async) return endUndivided(s, request, missing);
  const needed = tokensToHold(s, prefix, computed + numNew);
  const reserved = tokensToReserve(s, request);
  // Blocks that are still to be loaded must not enter the prefix cache.
  const publishes = config.enablePrefixCaching && !external.async;
  const publishTo = publishes ? Math.min(computed + numNew, request.numTokens) : 0;
  const spare = blocksToSpare(s);
  const keeps = config.loadReservation && external.async;
  const take = (): number => {
    const kept = keeps ? reservedBlocks(s, request) : 0;
    return config.kvGroups === null
      ? s.core.native.admit(request.slot, numHits, reserved, needed, publishTo, spare, kept)
      : takeGroups(s, prefix, numNew, reserved, spare, kept);
  };
  let row = take();
  while (row < 0 && findRoom(s, plan, request, row === NO_FREE_ROW)) {
    // The request that freed its blocks may have made more of the prefix known. All groups use the
    // hits as they are found, so the prefix is looked up again.
    if (config.kvGroups !== null && fresh && matchPrefix(s, request) !== numHits) return true;
    row = take();
  }
  if (row < 0) {
    if (row === NO_FREE_ROW) s.counters.rowStalls++;
    return reclaimOwn(s, plan, request);
  }
  // A session may hold more blocks than it needs now, because tokens after the stop of its last
  // answer had blocks too.
  const numBlocks =
    fresh && config.kvGroups === null
      ? Math.ceil(needed / config.blockSize)
      : s.core.blocks(request.slot).length;
  enter(s, plan, queue, prefix, numNew, numBlocks);
  if (numDrafts > 0) padEntry(s, plan, request, numDrafts);
  return true;
}

/**
 * Ends a request that has grown, if no step can compute its missing tokens or a part of them.
 * @returns whether it ended
 */
function endUndivided(s: SchedulerState, request: Request, missing: number): boolean {
  return s.endsOutgrown && missing > s.wholeStepTokens && endOutgrown(s, request);
}

/**
 * Reclaims a row or blocks from a request that does not run, for a request that found none.
 * @param lacksRow the request found no row; otherwise it found too few blocks
 * @returns false if no request has any to give
 */
export function findRoom(s: SchedulerState, plan: Plan, request: Request, lacksRow: boolean): boolean {
  if (lacksRow && reclaimRow(s)) return true;
  return reclaimSession(s, request, lacksRow) || reclaimStuckLoad(s, plan, request);
}

/**
 * Enters a request that has its row and its blocks: into the plan, or, if its prefix must be loaded first, among the
 * loading. If its connector fails now, the request ends.
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
  const local = fresh ? numHits * s.groups.hashBlockSize : computed;
  if (fresh) countLookup(s, request, local, external.numTokens ?? 0);
  if (s.connector !== null && !beginLoad(s, plan, request, external, local)) return;
  request.numComputedTokens = computed;
  const hasMore = external.async || computed + numNew < request.numTokens;
  if (s.config.loadReservation && s.connector !== null && hasMore) {
    request.mayReserve = true;
    s.prefills.add(request);
  }
  if (external.async) s.queues.parkLoading(queue, request);
  else enterPlan(s, plan, request, numNew, numBlocks, fresh ? numHits : prefix.numHeld);
}

/**
 * Counts prefix cache lookups, once per admission. vLLM counts again each time that a request is
 * looked up and does not fit.
 */
function countLookup(s: SchedulerState, request: Request, hitTokens: number, externalTokens: number): void {
  const { counters } = s;
  if (request.numCachedTokens < 0) request.numCachedTokens = hitTokens + externalTokens;
  request.numLoadedTokens = 0;
  if (s.connector !== null) counters.externalQueries += request.numTokens - hitTokens;
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

/**
 * Counts a prompt when its first step is planned. Tokens that this step loads are counted when it
 * is over.
 */
function countPrompt(
  { counters }: SchedulerState,
  { numPromptTokens, numCachedTokens, numLoadedTokens, numExternalTokens }: Request,
): void {
  const loaded = Math.min(numLoadedTokens, numCachedTokens);
  counters.promptTokens += numPromptTokens - numExternalTokens;
  counters.promptTokensCached += numCachedTokens - numExternalTokens - loaded;
  counters.promptTokensLoaded += loaded;
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
  if (s.config.kvGroups !== null) noteGroups(s, plan, at);
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
    // A load that was counted when it began may have loaded less, or nothing.
    request.numCachedTokens = plan.numComputedTokens[at];
    countPrompt(s, request);
    s.backlog.leave(request, s.now, true);
  }
  if (channels.admit.hasSubscribers) {
    const { id, handle } = request;
    channels.admit.publish({ id, handle, numComputedTokens: plan.numComputedTokens[at], resumed });
  }
}
