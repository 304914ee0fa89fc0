import { hasRows } from '../../core/rows.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Blocks that the prompts under way still need, or all blocks if they need more than there are, so that an asynchronous load is admitted only beside them (the rule `loadReservation`).
 * @param except the request that asks: its own tokens do not count twice
 */
export function reservedBlocks(s: SchedulerState, except: Request): number {
  let blocks = 0;
  for (const request of s.prefills) if (request !== except) blocks += missingBlocks(s, request);
  return Math.min(blocks, s.config.numBlocks);
}

/**
 * Blocks that a request needs beyond those that it holds, until each of its tokens has one. One that holds none, since its load failed
 * wholly, waits as others do: nobody waits for it. vLLM counts it, and on an idle engine everybody waits for ever.
 */
function missingBlocks(
  { core, config }: SchedulerState,
  { slot, numTokens, numComputedTokens }: Request,
): number {
  const tokens = Math.min(numTokens, config.maxModelLen);
  if (!hasRows(core, slot)) return 0;
  if (config.kvGroups !== null) {
    let blocks = 0;
    for (const count of core.native.neededGroups(slot, 0, 0, numComputedTokens, 0, 0, tokens) ?? [])
      blocks += count;
    return blocks;
  }
  return Math.max(0, Math.ceil(tokens / config.blockSize) - core.blocks(slot).length);
}
