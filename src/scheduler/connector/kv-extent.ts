import type { Plan } from '../plan/plan.js';
import { isLoading } from '../request/load.js';
import type { Request } from '../request/request.js';

/** How much of a request's KV is in its blocks, counted in tokens from the first one on. */
export interface KvExtent {
  /** Tokens whose KV is in the blocks once step `readableFrom` has been executed. */
  readonly numTokens: number;
  /**
   * Of these, tokens whose KV is there now: every step that wrote it was updated, and none of these
   * steps failed.
   */
  readonly numSettledTokens: number;
  /**
   * The last step in flight that writes blocks of the request; -1: the KV of all `numTokens` is
   * there now. The KV is readable when that step was updated, provided that neither it nor an
   * earlier step named the request in `Plan.failedHandles`.
   */
  readonly readableFrom: number;
}

/** The plans whose tokens may not be written yet, as far as the scheduler knows. */
export interface UnsettledPlans {
  /** The plans in flight, oldest first. */
  readonly inFlight: readonly Plan[];
  /** The plan that is being made, or whose failures are being processed; null = neither. */
  readonly openPlan: Plan | null;
}

/**
 * How much of a request's KV is in its blocks. `Request.numComputedTokens` also counts tokens that
 * steps in flight compute, and tokens of a pending load. This function separates both from the KV
 * that is there.
 */
export function kvExtent({ inFlight, openPlan }: UnsettledPlans, request: Request): KvExtent {
  const { numComputedTokens, admittedStep } = request;
  const computed = numComputed(request);
  let unsettled = 0;
  let readableFrom = -1;
  // A step that was in flight at the admission may still have to write blocks of the request's
  // cached prefix.
  let isSure = true;
  for (let i = 0; i <= inFlight.length; i++) {
    const plan = i < inFlight.length ? inFlight[i] : openPlan;
    if (plan === null) continue;
    // A plan from before the last admission wrote other blocks than those that the request has now.
    // Tokens of a dropped entry no longer count.
    let at = plan.step < admittedStep ? -1 : plan.indexOf(request);
    if (at >= 0 && plan.dropped[at] !== 0) at = -1;
    if (at >= 0) unsettled += plan.numScheduledTokens[at];
    if (plan.step <= admittedStep) isSure = false;
    if (at >= 0 || plan.step <= admittedStep) readableFrom = Math.max(readableFrom, plan.step);
  }
  const settled = isSure ? Math.max(0, numComputedTokens - unsettled) : 0;
  const numSettledTokens = Math.min(settled, computed);
  return { numTokens: computed, numSettledTokens, readableFrom: computed > 0 ? readableFrom : -1 };
}

/**
 * Tokens that are computed, or will be by the steps in flight. While a request is being loaded, the
 * loaded tokens do not count.
 */
function numComputed(request: Request): number {
  const { numTokens, numComputedTokens, load } = request;
  const awaits = load !== null && isLoading(request);
  const computed = awaits ? Math.min(load.localTokens, numComputedTokens) : numComputedTokens;
  return Math.min(computed, numTokens);
}
