// The arithmetic of an admission: its cached prefix, its tokens, its blocks.
import { Control } from '../../core/core.js';
import { NO_MATCH, type ParsedMatch } from '../connector/connector-answers.js';
import type { RuledConfig } from '../options/options.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * The prefix that a request need not compute: blocks of the local prefix cache, and after them the
 * tokens that the connector can load.
 */
export interface Prefix {
  readonly request: Request;
  /** The request has no computed tokens, so prefix cache and connector were asked. */
  readonly fresh: boolean;
  /**
   * Leading blocks found in the prefix cache, counted in blocks of one block hash (`hashBlockSize`).
   */
  readonly numHits: number;
  /** Blocks that the request already holds. */
  readonly numHeld: number;
  /** Tokens that the connector can load after the local blocks. */
  readonly external: ParsedMatch;
}

/** Computed tokens of a request right after its admission, those still to be loaded included. */
export function computedAtAdmission(
  { groups }: SchedulerState,
  { request, fresh, numHits, external }: Prefix,
): number {
  return fresh ? numHits * groups.hashBlockSize + (external.numTokens ?? 0) : request.numComputedTokens;
}

/**
 * The number of leading blocks that the prefix cache has for a request (vLLM
 * `get_computed_blocks`). The block of the last token never counts, because one token must be
 * computed to sample from.
 */
export function matchPrefix(s: SchedulerState, request: Request): number {
  const { enablePrefixCaching, kvGroups } = s.config;
  if (!enablePrefixCaching) return 0;
  if (kvGroups !== null)
    return s.core.native.matchGroups(request.slot, request.numTokens - 1) / kvGroups.hashBlockSize;
  const hits = s.core.native.match(request.slot, Math.floor((request.numTokens - 1) / s.config.blockSize));
  return s.dropLastHit && hits > 0 ? hits - 1 : hits;
}

/**
 * Tokens that a request computes in the step that admits it.
 * @param missing tokens of the request that are not computed
 * @param budget tokens that are left to the step
 * @returns -1 if `missing` exceeds the budget and chunked prefill is off
 */
export function tokensToCompute(config: RuledConfig, missing: number, budget: number): number {
  const { longPrefillTokenThreshold, enableChunkedPrefill } = config;
  const most = longPrefillTokenThreshold > 0 ? Math.min(missing, longPrefillTokenThreshold) : missing;
  if (most <= budget) return most;
  return enableChunkedPrefill ? budget : -1;
}

/**
 * The number of tokens that the row of a request needs slots for at its admission.
 * @param computed tokens of the request that are computed once the step was executed
 */
export function tokensToHold(s: SchedulerState, prefix: LookaheadCase, computed: number): number {
  return Math.min(computed + lookaheadAtAdmission(s, prefix, computed), s.slotLimit);
}

type LookaheadCase = Pick<Prefix, 'fresh' | 'external'>;

/**
 * Slots for drafts that an admission takes beyond the tokens of the step; see the rule
 * `admissionLookahead`. There are fewer if the pool can never hold more: otherwise a lone request
 * that just fits would wait for ever.
 * @param computed tokens of the request that are computed once the step was executed
 */
export function lookaheadAtAdmission(
  { config, lookahead, slotLimit }: SchedulerState,
  { fresh, external }: LookaheadCase,
  computed: number,
): number {
  if (config.admissionLookahead ? external.async : fresh) return 0;
  return Math.min(lookahead, Math.max(slotLimit - computed, 0));
}

/** Blocks that an admission leaves free for running requests; see the rule `watermark`. */
export function blocksToSpare({ queues, watermarkBlocks }: SchedulerState): number {
  return queues.running.length + queues.numLentRunning > 0 ? watermarkBlocks : 0;
}

/**
 * Tokens for which there must be free blocks when a request is admitted, though the admission takes fewer; see the
 * option `reserveFullIsl`. 0 without that option.
 */
export function tokensToReserve(s: SchedulerState, { numTokens }: Request): number {
  const { reserveFullIsl, kvGroups, deviations, maxModelLen } = s.config;
  if (!reserveFullIsl) return 0;
  // A later chunk of the prompt takes blocks for drafts too.
  if (kvGroups !== null && deviations.capDrafts) return Math.min(numTokens + s.lookahead, s.slotLimit);
  return Math.min(numTokens, maxModelLen);
}

/**
 * Blocks that must be free for a request to be admitted by a step with its whole token budget left.
 * They are the blocks that the request needs, minus those that it holds and minus its cached blocks
 * that other requests hold. The connector is not asked what it could load.
 * @returns by KV cache group; null: it hits a state that the last step makes, and waits for it
 */
export function freeBlocksToAdmit(s: SchedulerState, request: Request): ArrayLike<number> | null {
  const { config, core } = s;
  const { blockSize, maxNumBatchedTokens } = config;
  const { slot, numTokens } = request;
  const fresh = request.numComputedTokens === 0;
  const numHits = fresh ? matchPrefix(s, request) : 0;
  if (config.kvGroups !== null) {
    const hit = numHits * config.kvGroups.hashBlockSize;
    const before = fresh ? 0 : request.numComputedTokens;
    const more = Math.max(tokensToCompute(config, numTokens - before - hit, maxNumBatchedTokens), 0);
    const reserve = tokensToReserve(s, request);
    const lookahead = lookaheadAtAdmission(s, { fresh, external: NO_MATCH }, before + hit + more);
    return core.native.neededGroups(slot, hit, 0, before, more, lookahead, reserve);
  }
  // `matchPrefix` may have dropped the last hit, but `Control.hitFree` counts the hits of the last lookup. So the
  // lookup is repeated for the hits that count.
  if (s.dropLastHit && numHits > 0) core.native.match(slot, numHits);
  const numHitsFree = numHits > 0 ? core.control[Control.hitFree] : 0;
  const computed = fresh ? numHits * blockSize : request.numComputedTokens;
  const numNew = tokensToCompute(config, numTokens - computed, maxNumBatchedTokens);
  const numTaken = Math.max(
    tokensToHold(s, { fresh, external: NO_MATCH }, computed + numNew),
    tokensToReserve(s, request),
  );
  const held = fresh ? numHits : core.blocks(slot).length;
  return [Math.max(Math.ceil(numTaken / blockSize) - held, 0) + numHitsFree];
}
