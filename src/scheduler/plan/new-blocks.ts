import type { Core } from '../../core/core.js';
import { EntryKind, type Plan } from './plan.js';

/** The ids of the blocks that an entry took from the pool in the step of its plan, in the order of its tokens. */
export function newBlocksOf(core: Core, plan: Plan, entry: number): Int32Array {
  const numBlocks = plan.numBlocks[entry];
  const isRunning = plan.kinds[entry] === EntryKind.running;
  const from = isRunning ? numBlocks - plan.numNewBlocks[entry] : plan.numHitBlocks[entry];
  if (from >= numBlocks) return new Int32Array(0);
  return core.blocks(plan.slots[entry]).subarray(from, numBlocks);
}
