// vLLM's rules for drafts under a grammar.
import type { SubjectGrammar } from '../subject.js';
import type { ReferencePlan } from './plan.js';

/** The leading drafts that a grammar allows. */
export function allowed(grammar: SubjectGrammar | undefined, drafts: number[]): number[] {
  return grammar ? drafts.slice(0, grammar.validateTokens(Int32Array.from(drafts))) : drafts;
}

/**
 * vLLM's update_draft_token_ids_in_output: drafts behind placeholders, -1 where a grammar allows no further one. Requests that
 * the step before did not run have no row, and keep their placeholders.
 */
export function replaceDrafts(plan: ReferencePlan, rows: number[][]): void {
  for (const [i, { request, drafts, needsAllTokens }] of plan.entries.entries()) {
    if (request.isFinished || drafts.length === 0) continue;
    if (rows[i].length === 0 && needsAllTokens) continue;
    const valid = allowed(request.input.grammar, rows[i].slice(0, drafts.length));
    const invalid = drafts.length - valid.length;
    plan.draftTokens.set([...valid, ...new Array<number>(invalid).fill(-1)], i * plan.maxDrafts);
    plan.numInvalidDraftTokens[i] = invalid;
  }
}
