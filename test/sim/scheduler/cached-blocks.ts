import { isFull } from '../../../src/scheduler/options/kv-groups.js';
import type { SchedulerConfig } from '../../../src/scheduler/options/options.js';
import { ruledConfig } from '../../../src/scheduler/options/options.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { FoundBlock } from '../audit/group-audit.js';
import type { Memory } from './memory.js';

/** Whether a block of a group may have the hash of a part of its tokens (`promptTails`). */
export function mayBePart(config: SchedulerConfig, group: number): boolean {
  const { kvGroups, promptTails } = ruledConfig(config);
  return promptTails && kvGroups !== null && isFull(kvGroups.list[group]);
}

/**
 * The blocks that can be found, each with the identity of its text. A block of full attention may
 * have the hash of a part of its tokens (`promptTails`). Then the block surely holds only its first
 * tokens: as many as a hash covers.
 */
export function cachedBlocks({ core, config }: Scheduler, memory: Memory): FoundBlock[] {
  return [...core.published()].map((block) => {
    const group = core.publishedGroup(block);
    const hash = `${core.native.publishedHash(block)?.toString(16)}/${group}`;
    const tokens = mayBePart(config, group) ? config.kvGroups?.hashBlockSize : undefined;
    return { block, group, hash, print: memory.lastPrint(block, group, tokens) };
  });
}
