import { percent } from '../../base/inspect.js';
import { Control, type Core } from '../../core/core.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import type { Request } from './request.js';

/** Entries of a plan, or rows, that are shown at most. */
const MOST_SHOWN = 6;

/** How much of the pool is in use, as of the last native call: to look changes nothing. */
export function kvUsage({ control, config }: Core): string {
  return percent(1 - control[Control.freeBlocks] / (config.numBlocks - 1));
}

/** What a scheduler is at, in a few figures. */
export function schedulerFacts(s: SchedulerState): object {
  const { queues, core, config } = s;
  return {
    running: queues.running.length,
    waiting: queues.waiting.length,
    skipped: queues.numSkipped,
    step: s.step,
    stepsInFlight: s.inFlight.length,
    kvUsage: kvUsage(core),
    numBlocks: config.numBlocks,
    policy: config.policy,
  };
}

/** What a plan says of itself; the scheduler's own, or the copy that an executor is given. */
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

/** The figures of a plan, and its first entries: `a: positions 0 to 5`. */
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

/** The first of so many things in words, and how many more there are. */
export function firstOf(count: number, describe: (i: number) => string): string[] {
  const shown = Array.from({ length: Math.min(count, MOST_SHOWN) }, (_, i) => describe(i));
  return count > MOST_SHOWN ? [...shown, `and ${count - MOST_SHOWN} more`] : shown;
}

/** What became of a request so far. */
export function requestFacts(request: Request): object {
  const { id, handle, status, numPromptTokens, numComputedTokens, numCachedTokens, maxTokens } = request;
  return {
    id,
    handle,
    status,
    promptTokens: numPromptTokens,
    outputTokens: `${request.numOutputTokens} of ${maxTokens}`,
    computed: numComputedTokens,
    cached: numCachedTokens < 0 ? undefined : numCachedTokens,
    preemptions: request.numPreemptions === 0 ? undefined : request.numPreemptions,
    finishReason: request.finishReason ?? undefined,
    failure: request.failure ?? undefined,
  };
}
