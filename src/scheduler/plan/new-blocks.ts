import type { Core } from '../../core/core.js';
import { EntryKind, type Plan } from './plan.js';

/** The ids of the blocks that an entry took from the pool in the step of its plan, in the order of its tokens. */
export function newBlocksOf(core: Core, plan: Plan, entry: number, group = 0): Int32Array {
  const { numBlocks, numNewBlocks, numHitBlocks } = plan.groups[group];
  const length = numBlocks[entry];
  const isRunning = plan.kinds[entry] === EntryKind.running;
  const from = isRunning ? length - numNewBlocks[entry] : numHitBlocks[entry];
  if (from >= length) return new Int32Array(0);
  return core.blocks(plan.slots[entry], group).subarray(from, length);
}
