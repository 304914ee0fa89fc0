// Recomputes every request that built on bad blocks.
import { markFailed } from '../life/loading.js';
import { discardOutputs, preemptByForce } from '../life/preempt.js';
import { releaseWaiting } from '../life/reclaim.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { forgetBlocks, forgetRow } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import {
  droppedInFlight,
  firstTokenIn,
  holdsBlocks,
  holdsSince,
  placesOf,
  tokensKept,
} from './lost-places.js';

/**
 * The consequences of bad blocks: blocks that were published and then not written, or written
 * wrongly, by a failed step or a failed load. Bad blocks leave the prefix cache, and requests that
 * share them are computed again.
 */

/**
 * Removes a request's blocks with KV of the tokens from `firstBad` on from the prefix cache, and
 * adds their ids to `bad`.
 */
export function evictRow(s: SchedulerState, request: Request, firstBad: number, bad: Set<number>): void {
  for (const { id, endToken } of placesOf(s, request)) if (endToken > firstBad) bad.add(id);
  forgetFrom(s, request, firstBad);
}

/**
 * Removes the hashes from the blocks of a request that have KV of the tokens from `firstToken` on.
 * This includes blocks that steps in flight have dropped.
 */
export function forgetFrom(s: SchedulerState, request: Request, firstToken: number): void {
  forgetRow(s, request.slot, firstToken);
  // If such a block has been taken again, its hash belongs to another request.
  const dropped = droppedInFlight(s, request).filter(({ id, endToken }) => id > 0 && endToken > firstToken);
  if (dropped.length === 0) return;
  s.core.flush();
  forgetBlocks(
    s,
    Int32Array.from(dropped, ({ id }) => id),
  );
}

/**
 * The requests of this step, and of the steps in flight after it, that no longer have the row that
 * they had there.
 */
export function leftSince(s: SchedulerState, oldest: Plan): Request[] {
  const left = new Set<Request>();
  for (const { requests, numRequests, step } of [oldest, ...s.inFlight]) {
    for (const request of requests.slice(0, numRequests)) if (!holdsSince(request, step)) left.add(request);
  }
  return [...left];
}

/**
 * Whether a request that may have shared a bad block has freed it meanwhile, as far as is known.
 * Only requests admitted in this step or later may have shared one. A request admitted before
 * already had its blocks when the bad ones were published. Blocks that such a request computed on
 * top of bad ones can still be found in the prefix cache, and are wrong.
 * @param failed requests whose own entries failed, which are not considered
 */
export function someSharerLeft(s: SchedulerState, plan: Plan, failed: ReadonlySet<Request>): boolean {
  return leftSince(s, plan).some((request) => request.admittedStep >= plan.step && !failed.has(request));
}

/**
 * Marks the entries of a request, in the plan being updated and in those in flight, as computed
 * from bad KV. A connector must not store their KV. Entries of requests that have ended are marked
 * too, because their KV is never computed again.
 */
export function spoilEntries(s: SchedulerState, plan: Plan, request: Request): void {
  for (const each of [plan, ...s.inFlight]) each.spoil(request);
}

/**
 * Forgets the whole prefix cache, because it is unknown which free blocks are bad. Every request
 * that was admitted in the plan's step or later may have hit one, so it is computed again.
 * @param spared requests that already compute their missing tokens
 */
export function forgetSince(s: SchedulerState, plan: Plan, spared: ReadonlySet<Request>): void {
  forgetBlocks(s, s.core.published());
  for (const { requests, numRequests } of [plan, ...s.inFlight]) {
    for (const request of requests.slice(0, numRequests)) {
      if (request.isFinished && request.admittedStep >= plan.step) spoilEntries(s, plan, request);
    }
  }
  for (const request of s.requests.values()) {
    // The request was preempted since and has no row to take. But its outputs in flight may be
    // computed from a bad block.
    if (request.container !== 'running' && request.admittedStep >= plan.step && !spared.has(request))
      discardOutputs(s, request, plan);
  }
  recompute(s, plan, (request) => (request.admittedStep >= plan.step && !spared.has(request) ? 0 : -1));
}

/**
 * Lets every request that holds one of these blocks be computed again, except those in `spared`.
 */
export function recomputeSharers(
  s: SchedulerState,
  plan: Plan | null,
  bad: ReadonlySet<number>,
  spared: ReadonlySet<Request>,
): void {
  const all = withBuilt(s, plan, bad, spared);
  recompute(s, plan, (request) => (spared.has(request) ? -1 : firstTokenIn(s, request, all)));
}

/**
 * These blocks, and those that this plan and the plans in flight after it computed from them. A
 * request that hit a block of a window need not hold the blocks that it was computed from.
 * @param plan null outside an update
 */
export function withBuilt(
  s: SchedulerState,
  plan: Plan | null,
  bad: ReadonlySet<number>,
  spared: ReadonlySet<Request>,
): ReadonlySet<number> {
  if (s.config.kvGroups === null) return bad;
  const all = new Set(bad);
  for (let before = -1; before !== all.size; ) {
    before = all.size;
    for (const request of s.requests.values()) {
      const first = spared.has(request) || !holdsBlocks(request) ? -1 : firstTokenIn(s, request, all);
      if (first < 0) continue;
      const had = computedBefore(s, plan, request);
      for (const { id, firstToken, endToken } of placesOf(s, request))
        if (firstToken >= first && endToken > had) all.add(id);
    }
  }
  return all;
}

/**
 * Tokens of a request that this plan and the plans in flight after it did not have to compute. They
 * were computed before, found or loaded.
 */
function computedBefore(s: SchedulerState, plan: Plan | null, request: Request): number {
  let least = request.numComputedTokens;
  for (const each of plan === null ? s.inFlight : [plan, ...s.inFlight]) {
    const at = each.indexOf(request);
    if (at >= 0) least = Math.min(least, each.numComputedTokens[at]);
  }
  return least;
}

/**
 * Preempts the running requests that have a bad block, last admitted first as in vLLM's forced
 * reset. Waiting requests that have a bad block lose their blocks.
 * @param firstBadToken first token with KV in a bad block of a request; -1 = none is bad
 */
function recompute(s: SchedulerState, plan: Plan | null, firstBadToken: (request: Request) => number): void {
  for (const request of [...s.queues.running].reverse()) {
    const firstBad = firstBadToken(request);
    if (firstBad < 0) continue;
    // Blocks after the bad prefix were computed from it, and are wrong too.
    forgetFrom(s, request, firstBad);
    request.numCachedTokens = Math.min(request.numCachedTokens, firstBad);
    preemptByForce(s, request, plan ?? undefined);
  }
  for (const request of s.requests.values()) {
    if (request.container === 'running' || !holdsBlocks(request)) continue;
    const firstBad = firstBadToken(request);
    if (firstBad < 0) continue;
    forgetFrom(s, request, firstBad);
    // This holds for a load that is done too: its blocks are published only when the request is promoted.
    if (request.load !== null) truncateLoad(s, request, firstBad);
    else releaseWaiting(s, request);
  }
}

/**
 * Truncates a load before its first bad block. The load may still write, so the request keeps the
 * blocks. At its promotion only tokens before the bad block count.
 * @param firstBad the first token with KV in the bad block
 */
export function truncateLoad(s: SchedulerState, request: Request, firstBad: number): void {
  if (request.load !== null) markFailed(s, request, request.load);
  request.numComputedTokens = Math.min(request.numComputedTokens, tokensKept(s, request, firstBad));
}
