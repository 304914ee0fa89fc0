import { isFull } from '../../../src/scheduler/options/kv-groups.js';
import { ruledConfig } from '../../../src/scheduler/options/options.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { FoundBlock } from '../audit/group-audit.js';
import type { Memory } from './memory.js';

/**
 * The blocks that can be found, each with what identifies the text that stands in it. Where a block of full attention may have the hash of a part of
 * its tokens (`promptTails`), only its first tokens are sure to stand in it: as many as a hash covers.
 */
export function cachedBlocks({ core, config }: Scheduler, memory: Memory): FoundBlock[] {
  const { kvGroups, promptTails } = ruledConfig(config);
  return [...core.published()].map((block) => {
    const group = core.publishedGroup(block);
    const hash = `${core.native.publishedHash(block)?.toString(16)}/${group}`;
    const mayBePart = promptTails && kvGroups !== null && isFull(kvGroups.list[group]);
    const tokens = mayBePart ? kvGroups.hashBlockSize : undefined;
    return { block, group, hash, print: memory.lastPrint(block, group, tokens) };
  });
}
