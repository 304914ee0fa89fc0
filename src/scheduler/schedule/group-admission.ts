import { Control } from '../../core/core.js';
import { neededPlaces } from '../connector/view-group.js';
import { keepDropped } from '../life/preempt.js';
import type { KvGroup } from '../options/kv-groups.js';
import type { Plan } from '../plan/plan.js';
import { keptInFlight } from '../plan/tokens-in-flight.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { computedAtAdmission, hashedTokens, lookaheadAtAdmission, type Prefix } from './admission.js';

/**
 * Takes the rows of a request in all KV cache groups, and their blocks.
 * @param numNew tokens to compute in this step
 * @param reserved tokens for which there must be free blocks, though fewer are taken
 * @param spare blocks that stay free
 * @param kept blocks that stay free beside those that are taken
 * @returns as `NativeCore.admit`
 */
export function takeGroups(
  s: SchedulerState,
  prefix: Prefix,
  numNew: number,
  reserved: number,
  spare: number,
  kept: number,
): number {
  const { request, fresh, numHits, external } = prefix;
  const inFlight = fresh ? 0 : keptInFlight(s, request);
  if (!fresh) keepDropped(s, request, Math.max(0, request.numComputedTokens - inFlight));
  return s.core.native.admitGroups(
    request.slot,
    numHits * hashedTokens(s.config),
    external.numTokens ?? 0,
    fresh ? 0 : request.numComputedTokens,
    numNew,
    lookaheadAtAdmission(s, prefix, computedAtAdmission(s, prefix) + numNew),
    reserved,
    !external.async,
    spare,
    kept,
    inFlight,
    request.numPromptTokens,
  );
}

/**
 * Whether what a connector could load is refused. A state behind external tokens is nowhere where steps end at the end of a block: vLLM accepts
 * them, and fails an assertion. And the last token of a request is always computed: who brings all tokens need not bring what that one needs, with
 * the deviation `refuseWholeMatches`.
 */
export function refusesMatch(
  { config: { kvGroups, deviations } }: SchedulerState,
  { numTokens }: Request,
  numLocal: number,
  numExternal: number,
): boolean {
  if (kvGroups === null || numExternal === 0) return false;
  if (kvGroups.alignsSteps) return true;
  if (!deviations.refuseWholeMatches || numLocal + numExternal < numTokens) return false;
  const needsMore = (group: KvGroup): boolean =>
    group.type === 'mamba' || neededPlaces(group, numTokens - 1).first < neededPlaces(group, numTokens).first;
  return kvGroups.list.some(needsMore);
}

/** Notes the places of an entry's rows in all groups, which the admission has left in the control words. */
export function noteGroups({ core: { control } }: SchedulerState, plan: Plan, at: number): void {
  for (const [g, group] of plan.groups.entries()) {
    group.numBlocks[at] = control[Control.groupBlocks + g];
    group.numNewBlocks[at] = group.numBlocks[at];
    group.numHitBlocks[at] = control[Control.groupHits + g];
  }
}

/**
 * Tokens that a request computes in a step where steps must end at the end of a block, so that there is a state to keep (vLLM
 * `_mamba_block_aligned_split`).
 * @param computed tokens that are computed before the step
 * @param numNew tokens that the step could compute; 0: none, because no block ends within them
 */
export function alignedTokens(s: SchedulerState, request: Request, computed: number, numNew: number): number {
  const { numTokens, numPromptTokens, session } = request;
  if (computed >= Math.max(numPromptTokens, numTokens - 1)) return numNew;
  const { blockSize, deviations } = s.config;
  // A step that begins inside a block ends where its block ends, or there is a wrong state to find there, or none. The next chunk of a session
  // begins anywhere; with a drafter so does what a token budget has left of the last two blocks.
  if ((session !== null || deviations.wholeStates) && computed % blockSize > 0)
    return Math.min(numNew, blockSize - (computed % blockSize));
  const wholeBlocks = numTokens - (numTokens % blockSize);
  // The last block of a drafter's prefix hit is computed again.
  const end = s.dropLastHit ? Math.max(wholeBlocks - blockSize, 0) : wholeBlocks;
  if (computed + numNew < end) return numNew - (numNew % blockSize);
  return computed < end && end < computed + numNew ? end - computed : numNew;
}
