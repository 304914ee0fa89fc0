// The blocks that an entry took from the pool in its step.
import type { Core } from '../../core/core.js';
import { NO_BLOCKS } from './let-go.js';
import { EntryKind, type Plan } from './plan.js';

type Places = Pick<Plan, 'groups' | 'kinds'>;

/** The ids of the blocks that an entry took from the pool in the step of its plan, in the order of its tokens. */
export function newBlocksOf(
  core: Core,
  plan: Places & Pick<Plan, 'slots'>,
  entry: number,
  group = 0,
): Int32Array {
  const { from, until } = newPlacesOf(plan, entry, group);
  if (from >= until) return NO_BLOCKS;
  core.flush();
  const out = new Int32Array(until - from);
  const count = core.native.readBlocks(plan.slots[entry], from, out, group);
  return count === out.length ? out : out.subarray(0, count);
}

/** The places of those blocks in the row of their group: from one on, until before another. */
export function newPlacesOf(plan: Places, entry: number, group: number): { from: number; until: number } {
  const { numBlocks, numNewBlocks, numHitBlocks } = plan.groups[group];
  const until = numBlocks[entry];
  const isRunning = plan.kinds[entry] === EntryKind.running;
  return { from: isRunning ? until - numNewBlocks[entry] : numHitBlocks[entry], until };
}
