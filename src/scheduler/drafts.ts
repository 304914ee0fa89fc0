import type { Plan } from './plan.js';
import type { SchedulerState } from './scheduler-state.js';

/** Draft tokens for the entries of the plan just updated, in plan order. */
export interface Drafts {
  tokens: Int32Array;
  /** Drafts of each entry, 0 to numSpeculativeTokens. */
  counts: Int32Array;
}

/**
 * Gives every request of the plan the drafts that its next step shall verify (vLLM `update_draft_token_ids`). Those of
 * a request that ended meanwhile are ignored, and one whose prompt is not computed yet gets none.
 */
export function setDrafts(s: SchedulerState, plan: Plan, drafts: Drafts): void {
  let offset = 0;
  for (let i = 0; i < plan.numRequests; i++) {
    const request = plan.requests[i];
    const count = drafts.counts[i];
    const from = offset;
    offset += count;
    if (request.isFinished) continue;
    if (plan.maxOutputTokens[i] === 0) {
      request.numDraftTokens = 0;
      continue;
    }
    request.numDraftTokens = count;
    const target = request.slot * s.maxDrafts;
    for (let j = 0; j < count; j++) s.drafts[target + j] = drafts.tokens[from + j];
  }
}
