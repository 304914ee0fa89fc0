// The drafts for the next step to verify.
import { endUnreported } from '../life/finish.js';
import type { Plan } from '../plan/plan.js';
import type { Drafts } from '../plan/step-result.js';
import { NO_ANSWER } from '../request/ask-grammar.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Gives every request of the plan the drafts that its next step verifies (vLLM
 * `update_draft_token_ids`), truncated to those that its grammar allows. Drafts of a request that
 * has ended are ignored. A request whose prompt is not yet computed gets none, and neither does a
 * session whose answer has ended.
 * @param drafts flat, in plan order: `counts[i]` tokens of entry i
 */
export function setDrafts(s: SchedulerState, plan: Plan, drafts: Drafts): void {
  const constrained = s.structured.size > 0;
  let offset = 0;
  for (let i = 0; i < plan.numRequests; i++) {
    const request = plan.requests[i];
    const from = offset;
    let count = drafts.counts[i];
    offset += count;
    if (request.isFinished) continue;
    if (plan.maxOutputTokens[i] === 0) {
      request.numDraftTokens = 0;
      continue;
    }
    if (constrained) count = numValid(s, request, drafts.tokens, from, count);
    request.numDraftTokens = count;
    const target = request.slot * s.maxDrafts;
    for (let j = 0; j < count; j++) s.drafts[target + j] = drafts.tokens[from + j];
  }
  for (const session of s.continued) session.numDraftTokens = 0;
}

/**
 * Puts drafts that a step in flight has made into a plan that was scheduled with placeholders (vLLM
 * `update_draft_token_ids_in_output`). A -1 replaces a missing draft, and all drafts from the first
 * one that the grammar refuses.
 *
 * Unchanged are entries of finished requests, and entries without placeholders. An entry with
 * placeholders but no given drafts is also unchanged, if its request was not in the previous step.
 * No step drafted for that request. With the deviation `refuseUnseenDrafts` this last rule holds
 * only for requests without a grammar.
 * @param drafts flat, in plan order: `counts[i]` tokens of entry i
 */
export function replaceDrafts(s: SchedulerState, plan: Plan, drafts: Drafts): void {
  const refusesUnseen = s.config.deviations.refuseUnseenDrafts;
  let offset = 0;
  for (let i = 0; i < plan.numRequests; i++) {
    const request = plan.requests[i];
    const from = offset;
    offset += drafts.counts[i];
    const scheduled = plan.numDraftTokens[i];
    if (request.isFinished || scheduled === 0) continue;
    const isUnseen = drafts.counts[i] === 0 && plan.needsAllTokens[i] !== 0;
    if (isUnseen && (request.grammar === null || !refusesUnseen)) continue;
    const count = numValid(s, request, drafts.tokens, from, Math.min(drafts.counts[i], scheduled));
    const target = i * plan.maxDrafts;
    for (let j = 0; j < scheduled; j++) {
      plan.draftTokens[target + j] = j < count ? drafts.tokens[from + j] : -1;
    }
    plan.numInvalidDraftTokens[i] = scheduled - count;
    plan.numInvalidDrafts += scheduled - count;
  }
}

/**
 * How many of these drafts the request's grammar allows. A grammar that throws or gives an invalid
 * answer ends its request with `error`.
 */
function numValid(
  s: SchedulerState,
  request: Request,
  tokens: Int32Array,
  from: number,
  count: number,
): number {
  if (request.grammar === null || count === 0) return count;
  const valid = s.grammars.askValidate(request, tokens, from, count);
  if (valid !== NO_ANSWER) return valid;
  endUnreported(s, request, FinishCode.error);
  return 0;
}
