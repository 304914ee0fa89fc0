// The blocks of an admission in several KV cache groups.
import { Control } from '../../core/core.js';
import { neededPlaces } from '../connector/view-group.js';
import { keepDropped } from '../life/preempt.js';
import type { KvGroup } from '../options/kv-groups.js';
import type { Plan } from '../plan/plan.js';
import { keptInFlight } from '../plan/tokens-in-flight.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { computedAtAdmission, lookaheadAtAdmission, type Prefix } from './admission.js';

/**
 * Takes the rows of a request in all KV cache groups, and their blocks.
 * @param numNew tokens to compute in this step
 * @param reserved tokens for which there must be free blocks, though fewer are taken
 * @param spare blocks that stay free
 * @param kept blocks that stay free in addition to those that are taken
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
    numHits * s.groups.hashBlockSize,
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
 * Whether a connector's match is refused. There are two cases. If steps end at the end of a block,
 * vLLM of May fails an assertion about external tokens; see the rule `stateLoads`. The second case
 * needs the deviation `refuseWholeMatches`. The last token of a request is always computed, but a
 * match of all tokens need not bring the KV that the last token needs.
 */
export function refusesMatch(
  { config: { kvGroups, deviations, stateLoads } }: SchedulerState,
  { numTokens }: Request,
  numLocal: number,
  numExternal: number,
): boolean {
  if (kvGroups === null || numExternal === 0) return false;
  if (kvGroups.alignsSteps && !stateLoads) return true;
  if (!deviations.refuseWholeMatches || numLocal + numExternal < numTokens) return false;
  const needsMore = (group: KvGroup): boolean =>
    group.type === 'mamba' || neededPlaces(group, numTokens - 1).first < neededPlaces(group, numTokens).first;
  return kvGroups.list.some(needsMore);
}

/**
 * Notes the places of an entry's rows in all groups, which the admission has left in the control
 * words.
 */
export function noteGroups({ core: { control } }: SchedulerState, plan: Plan, at: number): void {
  for (const [g, group] of plan.groups.entries()) {
    group.numBlocks[at] = control[Control.groupBlocks + g];
    group.numNewBlocks[at] = group.numBlocks[at];
    group.numHitBlocks[at] = control[Control.groupHits + g];
  }
}

/**
 * Tokens that a request computes in a step that must end at the end of a block, so that a state can
 * be kept. This is vLLM's `_mamba_block_aligned_split`, as of May 2026 without the deviation
 * `wholeStates`.
 * @param known tokens that the request has, with those that steps in flight bring. At `pipelineDepth` 3 steps from before a preemption
 * may bring some too, so that a resumed request has several to compute.
 * @param computed tokens that are computed before the step
 * @param numNew tokens that the step could compute; 0: none, because no block ends within them
 */
export function alignedTokens(
  s: SchedulerState,
  request: Request,
  known: number,
  computed: number,
  numNew: number,
): number {
  const { numPromptTokens, session } = request;
  const promptEnd = Math.max(numPromptTokens, known - 1);
  if (computed >= promptEnd) return numNew;
  const { blockSize, deviations } = s.config;
  const wholeBlocks = known - (known % blockSize);
  // The last block of a drafter's prefix hit is computed again.
  const end = s.dropLastHit ? Math.max(wholeBlocks - blockSize, 0) : wholeBlocks;
  if (deviations.wholeStates)
    return Math.max(endOfWhole(s, request, computed, computed + numNew, end, promptEnd) - computed, 0);
  // A step that begins inside a block ends where its block ends, because otherwise a wrong state
  // could be found there, or none. This applies to the next chunk of a session.
  if (session !== null && computed % blockSize > 0)
    return Math.min(numNew, blockSize - (computed % blockSize));
  if (computed + numNew < end) return numNew - (numNew % blockSize);
  return computed < end && end < computed + numNew ? end - computed : numNew;
}

/**
 * The end of a step if every block must have its state: a step that stays in the prompt ends with a
 * block. It stops at the first of three places that it would pass. They are the end of the block
 * that it begins in, and the last block end that can be found. The third is the last block end
 * before a divergence from an earlier prompt.
 * @param from tokens that are computed before the step
 * @param until the last position where it could end
 * @param lastFound the last end of a block that can be found
 */
function endOfWhole(
  { config, core }: SchedulerState,
  { slot }: Request,
  from: number,
  until: number,
  lastFound: number,
  promptEnd: number,
): number {
  const { blockSize, maxNumBatchedTokens, longPrefillTokenThreshold } = config;
  const stepLimit = Math.min(maxNumBatchedTokens, longPrefillTokenThreshold || maxNumBatchedTokens);
  const begun = from % blockSize;
  let end = until;
  if (until < promptEnd) {
    const aligned = until - (until % blockSize);
    // A block that no step can compute completely is computed in pieces.
    if (aligned > from || blockSize <= stepLimit) end = aligned;
  }
  if (begun > 0) end = Math.min(end, from - begun + blockSize);
  if (from < lastFound) end = Math.min(end, lastFound);
  const junction = core.native.junction(slot);
  if (junction <= from || junction >= end) return end;
  const parting = junction - ((junction - from) % blockSize);
  return parting > from ? parting : end;
}
