// The conditions for joining the steady decode.
import type { RuledConfig } from '../options/options.js';
import { EntryKind, type Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Whether the options allow a steady decode: for a decoding request, only its end must be decided.
 */
export function maySteady(config: RuledConfig): boolean {
  const { numSpeculativeTokens, draftSlots, padDecode, borrower, placement } = config;
  const isPlain = numSpeculativeTokens === 0 && draftSlots === 0 && !padDecode;
  const isAlone = borrower === null && placement.authority === 'host';
  return config.steadyDecode && isPlain && isAlone;
}

/**
 * Whether a request decodes: one token of it is not computed, and only its end must be decided.
 * A group of states does not shorten a step of one token.
 * @param mostTokens known tokens that it must not exceed
 */
export function mayJoin(
  { inFlight, pipelined }: SchedulerState,
  request: Request,
  mostTokens: number,
): boolean {
  const { tokensBase, computedBase, placeholdersBase, grammar, finishCode } = request;
  const decodes = tokensBase + placeholdersBase === computedBase + 1 && computedBase > 0;
  const goesOn = tokensBase <= mostTokens && finishCode === FinishCode.none;
  if (!decodes || !goesOn || grammar !== null || placeholdersBase !== inFlight.length) return false;
  return !pipelined || tokensBase + 1 < request.promptPlusMaxTokens;
}

/**
 * Makes the entries of a request in the plans in flight part of the steady decode of this epoch.
 * @returns false if an entry is not directly after the steady ones, or produces a number of tokens
 * other than one; nothing is changed
 */
export function joinInFlight(inFlight: readonly Plan[], epoch: number, request: Request): boolean {
  for (const plan of inFlight) {
    const at = plan.steadyEpoch === epoch ? plan.numSteady : 0;
    if (at >= plan.numRequests || plan.requests[at] !== request) return false;
    const isPlain = plan.kinds[at] === EntryKind.running && plan.numScheduledTokens[at] === 1;
    if (!isPlain || plan.maxOutputTokens[at] !== 1) return false;
  }
  for (const plan of inFlight) {
    plan.numSteady = plan.steadyEpoch === epoch ? plan.numSteady + 1 : 1;
    plan.steadyEpoch = epoch;
    plan.ends[plan.numSteady - 1] = request.eosTokenId;
  }
  return true;
}

/** Whether the steps in flight are sure to bring the last token that the request may generate. */
export function endsAhead({ numTokens, numOutputPlaceholders, promptPlusMaxTokens }: Request): boolean {
  return numOutputPlaceholders > 0 && numTokens + 1 >= promptPlusMaxTokens;
}
