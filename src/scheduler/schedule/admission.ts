import { Control } from '../../core/core.js';
import type { TakenMatch } from '../connector/connector-answers.js';
import type { SchedulerConfig } from '../options/options.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** What a request need not compute: blocks of the local cache, and behind them what the connector can bring. */
export interface Prefix {
  readonly request: Request;
  /** Nothing of it is computed yet, so both were asked. */
  readonly fresh: boolean;
  readonly numHits: number;
  /** Blocks that it has already. */
  readonly numHeld: number;
  readonly external: TakenMatch;
}

/** Tokens that need not be computed any more when the request is admitted. */
export function computedAtAdmission(
  { config }: SchedulerState,
  { request, fresh, numHits, external }: Prefix,
): number {
  return fresh ? numHits * config.blockSize + (external.numTokens ?? 0) : request.numComputedTokens;
}

/** Cached leading blocks. Never the last token's: one token must be computed to sample from. */
export function matchPrefix(s: SchedulerState, request: Request): number {
  if (!s.config.enablePrefixCaching) return 0;
  const hits = s.core.native.match(request.slot, Math.floor((request.numTokens - 1) / s.config.blockSize));
  return s.dropLastHit && hits > 0 ? hits - 1 : hits;
}

/**
 * Tokens that a request computes in the step that admits it.
 * @param missing its tokens that are not computed
 * @param budget tokens that the step has left
 * @returns -1 if they do not fit the budget, and a prompt is not computed in chunks
 */
export function tokensToCompute(config: SchedulerConfig, missing: number, budget: number): number {
  const { longPrefillTokenThreshold, enableChunkedPrefill } = config;
  const most = longPrefillTokenThreshold > 0 ? Math.min(missing, longPrefillTokenThreshold) : missing;
  if (most <= budget) return most;
  return enableChunkedPrefill ? budget : -1;
}

/**
 * Tokens that the row of an admitted request must have slots for.
 * @param computed its tokens that are computed when the step was executed
 */
export function tokensToHold(s: SchedulerState, fresh: boolean, computed: number): number {
  return Math.min(computed + (fresh ? 0 : s.lookahead), s.slotLimit);
}

/** Tokens that there must be free blocks for when a request is admitted, though it takes less: see `reserveFullIsl`. */
export function tokensToReserve({ config }: SchedulerState, { numTokens }: Request): number {
  return config.reserveFullIsl ? Math.min(numTokens, config.maxModelLen) : 0;
}

/**
 * Blocks that must be free for a request to be admitted by a step that has its whole budget left: those that it needs, less
 * those that it holds and its cached ones that others use. The connector is not asked what it could bring.
 */
export function freeBlocksToAdmit(s: SchedulerState, request: Request): number {
  const { config, core } = s;
  const { blockSize, maxNumBatchedTokens } = config;
  const { slot, numTokens } = request;
  const fresh = request.numComputedTokens === 0;
  const numHits = fresh ? matchPrefix(s, request) : 0;
  // The last hit may not count, and what is free is counted for the hits of the last lookup.
  if (s.dropLastHit && numHits > 0) core.native.match(slot, numHits);
  const numHitsFree = numHits > 0 ? core.control[Control.hitFree] : 0;
  const computed = fresh ? numHits * blockSize : request.numComputedTokens;
  const numNew = tokensToCompute(config, numTokens - computed, maxNumBatchedTokens);
  const numTaken = Math.max(tokensToHold(s, fresh, computed + numNew), tokensToReserve(s, request));
  const held = fresh ? numHits : core.blocks(slot).length;
  return Math.max(Math.ceil(numTaken / blockSize) - held, 0) + numHitsFree;
}
