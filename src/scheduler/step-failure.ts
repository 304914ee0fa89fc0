import { PendingOp } from '../core/core.js';
import { finish } from './finish.js';
import type { Plan } from './plan.js';
import { discardOutputs, preemptByForce } from './preempt.js';
import { releaseSession } from './reclaim.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { FinishReason } from './status.js';

/**
 * Ends the requests of the entries that failed with `error`, each with its row in the outputs. The blocks that the step
 * published for them were never written: they lose their hashes, and requests that already share them are preempted, to
 * be computed again without them. What later steps in flight bring for either is dropped.
 */
export function failEntries(s: SchedulerState, plan: Plan, failed: (entry: number) => boolean): void {
  const bad = new Set<number>();
  let anyFailed = false;
  let traceless = false;
  for (let i = 0; i < plan.numRequests; i++) {
    if (!failed(i)) continue;
    anyFailed = true;
    const request = plan.requests[i];
    if (holdsSince(request, plan.step)) evictFrom(s, request, plan.numComputedTokens[i], bad);
    else traceless = true;
    if (plan.dropped[i] === 0 && finish(s, request, FinishReason.error)) {
      s.outputs.push(request, 0, 0, FinishReason.error);
    }
  }
  if (!anyFailed || !s.config.deviations.evictOnStepFailure) return;
  if (traceless || someSharerLeft(s, plan)) forgetSince(s, plan);
  else if (bad.size > 0) recompute(s, plan, (request) => firstHeld(s, request, bad));
}

/** Whether the request still has the row that it had in that step. */
function holdsSince(request: Request, step: number): boolean {
  return holdsBlocks(request) && request.admittedStep <= step;
}

/** A running request does, and a session between two answers may. */
function holdsBlocks({ container, session, numComputedTokens }: Request): boolean {
  return container === 'running' || (container !== null && session !== null && numComputedTokens > 0);
}

/**
 * Whether a request that was admitted in this step or later, and may have shared a bad block, has given its own blocks
 * back meanwhile. What it computed on top of the bad ones can be found and is wrong.
 */
function someSharerLeft(s: SchedulerState, plan: Plan): boolean {
  return [plan, ...s.inFlight].some(({ requests, numRequests, step }) =>
    requests
      .slice(0, numRequests)
      .some((request) => request.finishReason !== FinishReason.error && !holdsSince(request, step)),
  );
}

/** Unpublishes a request's blocks from the first one on that this step was to fill, and notes their ids. */
function evictFrom(s: SchedulerState, request: Request, numComputed: number, bad: Set<number>): void {
  if (!s.config.deviations.evictOnStepFailure) return;
  const firstBad = Math.floor(numComputed / s.config.blockSize);
  for (const id of s.core.blocks(request.slot).subarray(firstBad)) bad.add(id);
  s.core.push(PendingOp.evict, request.slot, firstBad);
}

/**
 * Which of the free blocks belong to what failed is no longer known. So the whole cache is forgotten, and whoever was
 * admitted since may have hit them.
 */
function forgetSince(s: SchedulerState, plan: Plan): void {
  s.core.native.evict(s.core.published());
  for (const request of s.requests.values()) {
    // Preempted since, so that it has no row to take; but what it still has in flight was computed with one.
    if (request.container !== 'running' && request.admittedStep >= plan.step)
      discardOutputs(s, request, plan);
  }
  recompute(s, plan, (request) => (request.admittedStep >= plan.step ? 0 : -1));
}

/**
 * Preempts, from the back as vLLM's forced reset does, the running requests with a bad block, and takes the blocks of
 * sessions that have one; -1 = none is bad.
 */
function recompute(s: SchedulerState, plan: Plan, firstBadBlock: (request: Request) => number): void {
  for (const request of [...s.queues.running].reverse()) {
    const firstBad = firstBadBlock(request);
    if (firstBad < 0) continue;
    // What a sharer filled behind the bad prefix was computed from it, and is wrong with it.
    s.core.push(PendingOp.evict, request.slot, firstBad);
    preemptByForce(s, request, plan);
  }
  for (const request of s.requests.values()) {
    if (request.container === 'running' || !holdsBlocks(request)) continue;
    const firstBad = firstBadBlock(request);
    if (firstBad < 0) continue;
    s.core.push(PendingOp.evict, request.slot, firstBad);
    releaseSession(s, request);
  }
}

function firstHeld(s: SchedulerState, request: Request, bad: ReadonlySet<number>): number {
  return s.core.blocks(request.slot).findIndex((id) => bad.has(id));
}
