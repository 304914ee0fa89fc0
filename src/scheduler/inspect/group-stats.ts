import { rowsOf } from '../../core/rows.js';
import type { KvGroupType } from '../events/kv-event.js';
import { nameOfGroup } from '../options/group-name.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** The blocks of one KV cache group. The permanent blocks of sinks are not counted. */
export interface GroupStats {
  /**
   * How much of the preceding tokens a token of the group's layers needs. Without `kvGroups` there
   * is one group, `full`.
   */
  readonly type: KvGroupType;
  /** The type with its window, chunk or mode: `sliding 128`. */
  readonly name: string;
  /** Tokens per block. */
  readonly blockSize: number;
  /** Blocks in use; a shared block counts once. For `mamba` each block is a state. */
  readonly usedBlocks: number;
  /** Blocks that carry a hash of the group, free ones included. */
  readonly cachedBlocks: number;
  /** Empty places in the rows of requests, whose content no later token reads. */
  readonly nullPlaces: number;
  /** How often a request dropped a block because no later token reads it, since the start. */
  readonly droppedBlocks: number;
}

/** The blocks of one request in one KV cache group. */
export interface GroupHolding {
  /** As in `GroupStats`. */
  readonly name: string;
  readonly blockSize: number;
  /** Places of its row, empty ones included. */
  readonly places: number;
  readonly blocks: number;
}

const PLAIN = { type: 'full', window: 0, chunk: 0, mode: null } as const;
/** The number of counts per group in the answer of `NativeCore.countGroups`. */
const COUNTS = 4;

/** Reads the blocks of each group. With `kvGroups` the cost grows with the pool, and with the rows of all requests. */
export function readGroupStats({ core, config }: SchedulerState): GroupStats[] {
  const { kvGroups, blockSize, numBlocks } = config;
  if (kvGroups === null) {
    const usedBlocks = numBlocks - 1 - core.freeBlocks;
    const counts = { usedBlocks, cachedBlocks: core.publishedBlocks, nullPlaces: 0, droppedBlocks: 0 };
    return [{ type: 'full', name: nameOfGroup(PLAIN), blockSize, ...counts }];
  }
  const counts = core.native.countGroups();
  return kvGroups.list.map((group, g) => {
    const [usedBlocks, cachedBlocks, nullPlaces, droppedBlocks] = counts.subarray(
      COUNTS * g,
      COUNTS * (g + 1),
    );
    const facts = { type: group.type, name: nameOfGroup(group), blockSize: group.blockSize };
    return { ...facts, usedBlocks, cachedBlocks, nullPlaces, droppedBlocks };
  });
}

/**
 * The blocks of a request, by group. Blocks that it kept for a transfer when it lost its rows are
 * not counted.
 */
export function readHoldings({ core, config }: SchedulerState, { slot }: Request): GroupHolding[] {
  const groups = config.kvGroups?.list ?? [{ ...PLAIN, blockSize: config.blockSize }];
  return rowsOf(core, slot).map((row, g) => ({
    name: nameOfGroup(groups[g]),
    blockSize: groups[g].blockSize,
    places: row.length,
    blocks: row.reduce((sum, id) => sum + Number(id !== 0), 0),
  }));
}
