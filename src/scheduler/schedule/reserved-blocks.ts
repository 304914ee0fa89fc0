import { hasRows } from '../../core/rows.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Blocks that the prompts in progress still need, or all blocks if they need more than there are.
 * An asynchronous load is admitted only beside them (the rule `loadReservation`).
 * @param asking the request that is to load; see the deviation `reserveForHolders`
 */
export function reservedBlocks(s: SchedulerState, asking: Request): number {
  const { numBlocks, deviations } = s.config;
  let blocks = 0;
  for (const request of s.prefills) {
    const counts = !deviations.reserveForHolders || (request !== asking && hasRows(s.core, request.slot));
    if (counts) blocks += missingBlocks(s, request);
  }
  return Math.min(blocks, numBlocks);
}

/** Blocks that a request needs beyond those that it holds, until each of its tokens has one. */
function missingBlocks(
  { core, config }: SchedulerState,
  { slot, numTokens, numComputedTokens }: Request,
): number {
  const tokens = Math.min(numTokens, config.maxModelLen);
  if (config.kvGroups !== null) {
    let blocks = 0;
    for (const count of core.native.neededGroups(slot, 0, 0, numComputedTokens, 0, 0, tokens) ?? [])
      blocks += count;
    return blocks;
  }
  return Math.max(0, Math.ceil(tokens / config.blockSize) - core.blocks(slot).length);
}
