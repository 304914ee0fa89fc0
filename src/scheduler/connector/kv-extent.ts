import type { Plan } from '../plan/plan.js';
import { isLoading } from '../request/load.js';
import type { Request } from '../request/request.js';

/** How much of a request's KV stands in its blocks, counted in tokens from the first one on. */
export interface KvExtent {
  /** Tokens whose KV stands in its blocks once step `readableFrom` has been executed. */
  readonly numTokens: number;
  /** Of these, tokens whose KV stands there now: every step that wrote it was updated, and none of them failed. */
  readonly numSettledTokens: number;
  /**
   * The last step in flight that writes blocks of the request; -1: all `numTokens` stand there now. They do when that step was
   * updated and neither it nor a step before it named the request among those that failed (`Plan.failedHandles`).
   */
  readonly readableFrom: number;
}

/**
 * How much of a request's KV stands in its blocks, while these plans are in flight, oldest first. `Request.numComputedTokens` counts what steps in flight compute, and what
 * a load is still to bring; this tells both apart from what is there.
 */
export function kvExtent(inFlight: readonly Plan[], request: Request): KvExtent {
  const computed = numComputed(request);
  let unsettled = 0;
  let readableFrom = -1;
  for (const plan of inFlight) {
    // Blocks of an earlier residency are not those that it has now.
    const at = plan.step < request.admittedStep ? -1 : plan.indexOf(request);
    if (at >= 0) unsettled += plan.numScheduledTokens[at];
    if (at >= 0 || plan.step <= request.admittedStep) readableFrom = plan.step;
  }
  // Its cached prefix may be what a step that was in flight when it was admitted is still to write.
  const isSure = inFlight.length === 0 || inFlight[0].step > request.admittedStep;
  const settled = isSure ? Math.max(0, request.numComputedTokens - unsettled) : 0;
  const numSettledTokens = Math.min(settled, computed);
  return { numTokens: computed, numSettledTokens, readableFrom: computed > 0 ? readableFrom : -1 };
}

/** Tokens that are computed or will be by the steps in flight; of a request that is being loaded only what was there before. */
function numComputed(request: Request): number {
  const { numTokens, numComputedTokens, load } = request;
  const awaits = load !== null && isLoading(request);
  const computed = awaits ? Math.min(load.localTokens, numComputedTokens) : numComputedTokens;
  return Math.min(computed, numTokens);
}
