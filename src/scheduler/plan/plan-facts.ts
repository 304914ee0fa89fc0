import { firstOf } from '../../base/inspect.js';

/**
 * The fields by which a plan is shown. Both the scheduler's plan and the copy that an executor is given have them.
 */
export interface ShownPlan {
  readonly step: number;
  readonly numRequests: number;
  readonly totalTokens: number;
  readonly requests: readonly { readonly id: string }[];
  readonly numScheduledTokens: Int32Array;
  readonly numComputedTokens: Int32Array;
  readonly preempted: readonly string[];
  readonly finished: readonly string[];
}

/** The figures of a plan, and its first entries with the positions that they compute: `a: positions 0 to 5`. */
export function planFacts(plan: ShownPlan): object {
  const { step, numRequests, totalTokens, preempted, finished } = plan;
  const entries = firstOf(numRequests, (i) => {
    const first = plan.numComputedTokens[i];
    const count = plan.numScheduledTokens[i];
    const positions = count === 1 ? `position ${first}` : `positions ${first} to ${first + count - 1}`;
    return `${plan.requests[i].id}: ${positions}`;
  });
  return {
    step,
    requests: numRequests,
    tokens: totalTokens,
    preempted: preempted.length,
    finished: finished.length,
    entries,
  };
}
