import type { Plan } from '../plan/plan.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Notes that the plan's requests were scheduled (vLLM `_update_after_schedule`). With
 * `pipelineDepth` > 1 every entry that will produce a token gets output placeholders, for the token
 * and for its drafts. The next step can then be planned before this one has ended (vLLM
 * AsyncScheduler). At depth 1 the drafts of every entry are used up.
 */
export function advance(s: SchedulerState, plan: Plan): void {
  const { step, slots, numRequests, needsAllTokens } = plan;
  const { lastSteps } = s;
  const previousStep = step - 1;
  for (let i = plan.numSteady; i < numRequests; i++) {
    const slot = slots[i];
    needsAllTokens[i] = lastSteps[slot] === previousStep ? 0 : 1;
    lastSteps[slot] = step;
  }
  if (s.pipelined && s.structured.size > 0) plan.pendingStructuredOutputTokens = hasPendingTokens(plan);
  if (s.notesPrefills) notePrefills(s, plan);
  if (s.pipelined || s.maxDrafts > 0) expectOutputs(s, plan);
}

/** Notes which requests have tokens left to compute after this step. */
function notePrefills({ prefills }: SchedulerState, { requests, numRequests, numSteady }: Plan): void {
  for (let i = numSteady; i < numRequests; i++) {
    const request = requests[i];
    request.isPrefilling = request.numComputedTokens < request.numTokens + request.numOutputPlaceholders;
    // Looking up each request of each step in the set would cost a quarter of the step.
    if (request.isPrefilling || !request.mayReserve) continue;
    request.mayReserve = false;
    prefills.delete(request);
  }
}

/** Whether an entry that will be sampled has a grammar that must first see tokens of a step in flight. */
function hasPendingTokens({ requests, numRequests, maxOutputTokens }: Plan): boolean {
  for (let i = 0; i < numRequests; i++) {
    const { grammar, numOutputPlaceholders } = requests[i];
    if (grammar !== null && numOutputPlaceholders > 0 && maxOutputTokens[i] > 0) return true;
  }
  return false;
}

/** Adds the output placeholders of each entry, and sets the number of drafts that its next step verifies. */
function expectOutputs(s: SchedulerState, plan: Plan): void {
  for (let i = plan.numSteady; i < plan.numRequests; i++) {
    const request = plan.requests[i];
    const expected = s.pipelined ? plan.maxOutputTokens[i] : 0;
    request.placeholdersBase += expected;
    request.numDraftTokens = expected > 0 ? s.maxDrafts : 0;
  }
}
