import type { Plan } from './plan.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Counts the planned tokens as computed, before they are (vLLM `_update_after_schedule`): the next step may be planned
 * while this one runs. With steps in flight, every entry that will bring a token also gets placeholders for it and for
 * its drafts (AsyncScheduler).
 */
export function advance(s: SchedulerState, plan: Plan): void {
  const { step, requests, numRequests, numScheduledTokens, numDraftTokens, needsAllTokens, maxOutputTokens } =
    plan;
  const { pipelined } = s;
  const previousStep = step - 1;
  let total = 0;
  for (let i = 0; i < numRequests; i++) {
    const request = requests[i];
    const scheduled = numScheduledTokens[i];
    total += scheduled;
    request.numComputedTokens += scheduled;
    needsAllTokens[i] = request.lastScheduledStep === previousStep ? 0 : 1;
    request.lastScheduledStep = step;
    request.numDraftTokens = 0;
    const known = request.numTokens + request.numOutputPlaceholders;
    request.isPrefillChunk = request.numComputedTokens < known;
    if (request.isPrefillChunk) {
      maxOutputTokens[i] = 0;
      continue;
    }
    const mostTokens = 1 + numDraftTokens[i];
    maxOutputTokens[i] = mostTokens;
    if (pipelined) {
      request.numOutputPlaceholders += mostTokens;
      request.numDraftTokens = s.maxDrafts;
    }
  }
  plan.totalTokens = total;
}
