import type { Plan } from '../plan/plan.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Notes that the plan's requests were scheduled. With steps in flight, every entry that will bring a token gets
 * placeholders for it and for its drafts, so that the next step can be planned (AsyncScheduler); otherwise its drafts are
 * used up.
 */
export function advance(s: SchedulerState, plan: Plan): void {
  const { step, slots, numRequests, needsAllTokens } = plan;
  const { lastSteps } = s;
  const previousStep = step - 1;
  for (let i = 0; i < numRequests; i++) {
    const slot = slots[i];
    needsAllTokens[i] = lastSteps[slot] === previousStep ? 0 : 1;
    lastSteps[slot] = step;
  }
  if (s.pipelined && s.structured.size > 0) plan.pendingStructuredOutputTokens = hasPendingTokens(plan);
  if (s.pipelined || s.maxDrafts > 0) expectOutputs(s, plan);
}

/** Whether an entry to be sampled has a grammar that must first see tokens which a step in flight makes. */
function hasPendingTokens({ requests, numRequests, maxOutputTokens }: Plan): boolean {
  for (let i = 0; i < numRequests; i++) {
    const { grammar, numOutputPlaceholders } = requests[i];
    if (grammar !== null && numOutputPlaceholders > 0 && maxOutputTokens[i] > 0) return true;
  }
  return false;
}

function expectOutputs(s: SchedulerState, plan: Plan): void {
  for (let i = 0; i < plan.numRequests; i++) {
    const request = plan.requests[i];
    const expected = s.pipelined ? plan.maxOutputTokens[i] : 0;
    request.numOutputPlaceholders += expected;
    request.numDraftTokens = expected > 0 ? s.maxDrafts : 0;
  }
}
