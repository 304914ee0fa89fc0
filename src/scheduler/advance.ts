import type { Plan } from './plan.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Counts the planned tokens as computed, before they are (vLLM `_update_after_schedule`): the next step may be planned
 * while this one runs. With steps in flight, every entry that will bring a token also gets placeholders for it and for
 * its drafts (AsyncScheduler).
 */
export function advance(s: SchedulerState, plan: Plan): void {
  const { step, requests, slots, numRequests, numScheduledTokens, numDraftTokens } = plan;
  const { needsAllTokens, maxOutputTokens } = plan;
  const { pipelined, maxDrafts, lastSteps } = s;
  const previousStep = step - 1;
  for (let i = 0; i < numRequests; i++) {
    const request = requests[i];
    const slot = slots[i];
    needsAllTokens[i] = lastSteps[slot] === previousStep ? 0 : 1;
    lastSteps[slot] = step;
    const computed = request.numComputedTokens + numScheduledTokens[i];
    request.numComputedTokens = computed;
    if (maxDrafts > 0) request.numDraftTokens = 0;
    const placeholders = pipelined ? request.numOutputPlaceholders : 0;
    if (computed < request.numTokens + placeholders) {
      maxOutputTokens[i] = 0;
      continue;
    }
    const mostTokens = 1 + numDraftTokens[i];
    maxOutputTokens[i] = mostTokens;
    if (pipelined) {
      request.numOutputPlaceholders = placeholders + mostTokens;
      request.numDraftTokens = maxDrafts;
    }
  }
}
