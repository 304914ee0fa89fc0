import { markFailed } from '../life/loading.js';
import { discardOutputs, preemptByForce } from '../life/preempt.js';
import { releaseWaiting } from '../life/reclaim.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { forgetBlocks, forgetRow } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * What follows from blocks that were published and then not written, or wrongly: by a step that failed, by a load that
 * failed. Nobody may find them, and whoever shares them is computed again without them.
 */

/** Whether the request still has the row that it had in that step. */
export function holdsSince(request: Request, step: number): boolean {
  return holdsBlocks(request) && request.admittedStep <= step;
}

/** A running request does; one that waits may: a session, or one whose prefix is or was loaded. */
function holdsBlocks({ container, numComputedTokens, load }: Request): boolean {
  return container === 'running' || (container !== null && (numComputedTokens > 0 || load !== null));
}

/** Unpublishes a request's blocks from `firstBad` on, and notes their ids. */
export function evictRow(s: SchedulerState, request: Request, firstBad: number, bad: Set<number>): void {
  for (const id of s.core.blocks(request.slot).subarray(firstBad)) bad.add(id);
  forgetRow(s, request.slot, firstBad);
}

/** Who was in this step or one behind it in flight, and has not the row any more that it had there. */
export function leftSince(s: SchedulerState, oldest: Plan): Request[] {
  const left = new Set<Request>();
  for (const { requests, numRequests, step } of [oldest, ...s.inFlight]) {
    for (const request of requests.slice(0, numRequests)) if (!holdsSince(request, step)) left.add(request);
  }
  return [...left];
}

/**
 * Whether a request that was admitted in this step or later, and may have shared a bad block, has given its own blocks
 * back meanwhile. What it computed on top of the bad ones can be found and is wrong. One that was admitted before had its blocks
 * when the bad ones were published, and has none of them.
 * @param failed entries of these were found bad themselves, and are not looked at
 */
export function someSharerLeft(s: SchedulerState, plan: Plan, failed: ReadonlySet<Request>): boolean {
  return leftSince(s, plan).some((request) => request.admittedStep >= plan.step && !failed.has(request));
}

/**
 * What a request has in flight, and in the step that is being updated, was computed from KV that is not good: none of it
 * is to be stored. This counts for requests that have ended too, which nobody computes again.
 */
export function spoilEntries(s: SchedulerState, plan: Plan, request: Request): void {
  for (const each of [plan, ...s.inFlight]) each.spoil(request);
}

/**
 * Which of the free blocks belong to what failed is no longer known. So the whole cache is forgotten, and whoever was
 * admitted since may have hit them.
 */
export function forgetSince(s: SchedulerState, plan: Plan): void {
  forgetBlocks(s, s.core.published());
  for (const { requests, numRequests } of [plan, ...s.inFlight]) {
    for (const request of requests.slice(0, numRequests)) {
      if (request.isFinished && request.admittedStep >= plan.step) spoilEntries(s, plan, request);
    }
  }
  for (const request of s.requests.values()) {
    // Preempted since, so that it has no row to take; but what it still has in flight was computed with one.
    if (request.container !== 'running' && request.admittedStep >= plan.step)
      discardOutputs(s, request, plan);
  }
  recompute(s, plan, (request) => (request.admittedStep >= plan.step ? 0 : -1));
}

/** Computes again whoever holds one of these blocks, but for those that are `spared`. */
export function recomputeSharers(
  s: SchedulerState,
  plan: Plan | null,
  bad: ReadonlySet<number>,
  spared: ReadonlySet<Request>,
): void {
  recompute(s, plan, (request) =>
    spared.has(request) ? -1 : s.core.blocks(request.slot).findIndex((id) => bad.has(id)),
  );
}

/**
 * Preempts, from the back as vLLM's forced reset does, the running requests with a bad block, and takes the blocks of
 * those that wait and have one; -1 = none is bad.
 */
function recompute(s: SchedulerState, plan: Plan | null, firstBadBlock: (request: Request) => number): void {
  for (const request of [...s.queues.running].reverse()) {
    const firstBad = firstBadBlock(request);
    if (firstBad < 0) continue;
    // What a sharer filled behind the bad prefix was computed from it, and is wrong with it.
    forgetRow(s, request.slot, firstBad);
    preemptByForce(s, request, plan ?? undefined);
  }
  for (const request of s.requests.values()) {
    if (request.container === 'running' || !holdsBlocks(request)) continue;
    const firstBad = firstBadBlock(request);
    if (firstBad < 0) continue;
    forgetRow(s, request.slot, firstBad);
    // Also when its load is done: it is not promoted yet, and only then is anything of it published.
    if (request.load !== null) truncateLoad(s, request, firstBad);
    else releaseWaiting(s, request);
  }
}

/** A load may still write its blocks: it keeps them, and when it is promoted only what stands before the bad one counts. */
export function truncateLoad(s: SchedulerState, request: Request, firstBad: number): void {
  if (request.load !== null) markFailed(s, request, request.load);
  request.numComputedTokens = Math.min(request.numComputedTokens, firstBad * s.config.blockSize);
}
