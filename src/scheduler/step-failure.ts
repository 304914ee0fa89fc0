import { PendingOp } from '../core/core.js';
import { finish } from './finish.js';
import type { Plan } from './plan.js';
import { preemptByForce } from './preempt.js';
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
  let traceless = false;
  for (let i = 0; i < plan.numRequests; i++) {
    if (!failed(i)) continue;
    const request = plan.requests[i];
    if (request.container === 'running') evictFrom(s, request, plan.numComputedTokens[i], bad);
    else traceless = true;
    if (plan.dropped[i] === 0 && finish(s, request, FinishReason.error)) {
      s.outputs.push(request, 0, 0, FinishReason.error);
    }
  }
  if (!s.config.deviations.evictOnStepFailure) return;
  if (traceless) forgetSince(s, plan.step);
  else if (bad.size > 0) recompute(s, (request) => firstHeld(s, request, bad));
}

/** Unpublishes a request's blocks from the first one on that this step was to fill, and notes their ids. */
function evictFrom(s: SchedulerState, request: Request, numComputed: number, bad: Set<number>): void {
  if (!s.config.deviations.evictOnStepFailure) return;
  const firstBad = Math.floor(numComputed / s.config.blockSize);
  for (const id of s.core.blocks(request.slot).subarray(firstBad)) bad.add(id);
  s.core.push(PendingOp.evict, request.slot, firstBad);
}

/**
 * The failed step also computed for requests that ended or were preempted meanwhile: which of the free blocks were
 * theirs is no longer known. So the whole cache is forgotten, and whoever was admitted since may have hit them.
 */
function forgetSince(s: SchedulerState, step: number): void {
  s.core.native.evict(s.core.published());
  recompute(s, (request) => (request.admittedStep >= step ? 0 : -1));
}

/** Preempts, from the back as vLLM's forced reset does, the running requests with a bad block; -1 = none is bad. */
function recompute(s: SchedulerState, firstBadBlock: (request: Request) => number): void {
  for (const request of [...s.queues.running].reverse()) {
    const firstBad = firstBadBlock(request);
    if (firstBad < 0) continue;
    // What a sharer filled behind the bad prefix was computed from it, and is wrong with it.
    s.core.push(PendingOp.evict, request.slot, firstBad);
    preemptByForce(s, request);
  }
}

function firstHeld(s: SchedulerState, request: Request, bad: ReadonlySet<number>): number {
  return s.core.blocks(request.slot).findIndex((id) => bad.has(id));
}
