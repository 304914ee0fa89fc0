import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { FoundBlock } from '../audit/group-audit.js';
import type { Memory } from './memory.js';

/** The blocks that can be found, each with what identifies the text that stands in it. */
export function cachedBlocks({ core }: Scheduler, memory: Memory): FoundBlock[] {
  return [...core.published()].map((block) => {
    const group = core.publishedGroup(block);
    const hash = `${core.native.publishedHash(block)?.toString(16)}/${group}`;
    return { block, group, hash, print: memory.lastPrint(block, group) };
  });
}
