import type { Executor, ExecutorPlan, ExecutorResult } from '../../../src/index.js';

/** An executor that computes nothing: every token is 1. */
export class NoModel implements Executor {
  readonly usesTables = false;

  execute(plan: ExecutorPlan): ExecutorResult {
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    let sum = 0;
    for (const count of counts) sum += count;
    return { tokens: new Int32Array(sum).fill(1), counts };
  }
}
