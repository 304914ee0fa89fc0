import { EntryKind, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * The number of padding drafts for an admission with a single token to compute; 0: none. They give
 * it the same shape as the other entries of its step (the rule `padDecode`).
 */
export function draftsToPad(
  { config, maxDrafts }: SchedulerState,
  plan: Plan,
  { numOutputPlaceholders }: Request,
): number {
  if (!config.padDecode || maxDrafts === 0) return 0;
  // Steps from before a preemption still bring the next tokens. Nothing is sampled here, so nothing
  // is drafted.
  if (numOutputPlaceholders > 0) return 0;
  const { longPrefillTokenThreshold: threshold, deviations } = config;
  if (deviations.padWholeRows && threshold > 0 && threshold < 1 + maxDrafts) return 0;
  return onlyDecodes(plan) ? maxDrafts : 0;
}

/**
 * Whether requests run in this step, and none of them was in the middle of its prompt before it.
 */
function onlyDecodes({ requests, kinds, numRequests }: Plan): boolean {
  let running = 0;
  for (; running < numRequests && kinds[running] === EntryKind.running; running++)
    if (requests[running].isPrefilling) return false;
  return running > 0;
}

/** Gives the last entry of the plan padding drafts: each is -1, and none can be accepted. */
export function padEntry(
  { config, maxDrafts }: SchedulerState,
  plan: Plan,
  request: Request,
  numDrafts: number,
): void {
  const at = plan.indexOf(request);
  if (at < 0) return;
  plan.numDraftTokens[at] = numDrafts;
  plan.maxOutputTokens[at] = 1 + numDrafts;
  // An executor with its own drafts must not use them for these. vLLM does not require this.
  if (config.deviations.refuseUnseenDrafts) {
    plan.numInvalidDraftTokens[at] = numDrafts;
    plan.numInvalidDrafts += numDrafts;
  }
  plan.draftTokens.fill(-1, at * maxDrafts, at * maxDrafts + numDrafts);
}
