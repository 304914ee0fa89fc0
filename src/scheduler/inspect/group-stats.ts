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

/** Numbers of one group in the answer of `NativeCore.countGroups`. */
const COUNTS = 4;

/** Reads the blocks of each group. With `kvGroups` the cost grows with the pool, and with the rows of all requests. */
export function readGroupStats({ core, config, groups }: SchedulerState): GroupStats[] {
  const counts =
    config.kvGroups === null
      ? [config.numBlocks - 1 - core.freeBlocks, core.publishedBlocks, 0, 0]
      : core.native.countGroups();
  return groups.list.map((group, g) => {
    const [usedBlocks, cachedBlocks, nullPlaces, droppedBlocks] = counts.slice(COUNTS * g, COUNTS * (g + 1));
    const facts = { type: group.type, name: nameOfGroup(group), blockSize: group.blockSize };
    return { ...facts, usedBlocks, cachedBlocks, nullPlaces, droppedBlocks };
  });
}

/**
 * The blocks that a request holds, by group. Blocks that it kept for a transfer when it lost its
 * rows are not counted.
 */
export function readHoldings({ core, groups: { list } }: SchedulerState, { slot }: Request): GroupHolding[] {
  return rowsOf(core, slot).map((row, g) => ({
    name: nameOfGroup(list[g]),
    blockSize: list[g].blockSize,
    places: row.length,
    blocks: row.reduce((sum, id) => sum + Number(id !== 0), 0),
  }));
}
