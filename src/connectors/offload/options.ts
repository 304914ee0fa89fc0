import { checkInteger } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import type { LaneFactory } from '../base/kv-lanes.js';
import type { KvMemory } from '../base/kv-memory.js';
import type { DiskOptions } from './tiers/disk-options.js';

/** Options of an `OffloadConnector`. */
export interface OffloadConnectorOptions {
  /** Blocks of the host tier on each rank: the number that every `OffloadWorker` has. 1 to 2^24. */
  hostBlocks: number;
  /** Number of workers. Default 1. */
  numRanks?: number;
  /**
   * Most blocks of the pool that stores may keep from others at once. Blocks that become settled meanwhile are stored
   * later, or not at all if their requests end before. Default: a quarter of the pool.
   */
  maxPinnedBlocks?: number;
  /**
   * Blocks of requests that decode are stored in one step of so many, 1 to 1,024. More cost a step less, and store later:
   * what is settled is lost to the tier if its request is preempted before. Prompts are stored at once. Default 8.
   */
  storeEvery?: number;
  /**
   * There is a disk tier behind the host tier: most milliseconds that a request waits for blocks from there. Default: none.
   */
  diskBudgetMs?: number;
  /** The hash seed of a scheduler that is given none, 16 bytes: that of a worker's disk tier (`OffloadWorker.hashSeed`). */
  hashSeed?: Uint8Array;
  /** The clock, in milliseconds. Default `performance.now`. */
  now?: () => number;
  /** Whether reports that no worker of this connector would send are thrown, and not only counted. Default false. */
  strict?: boolean;
}

/** Options of an `OffloadWorker`. */
export interface OffloadWorkerOptions {
  /** The KV memory of this rank. A `ReferenceExecutor` is one. */
  memory: KvMemory;
  /** Blocks of the host tier on this rank: the number that the `OffloadConnector` has. 1 to 2^24. */
  hostBlocks: number;
  /** Makes the lanes that copy. Default: a `HostLane`, or a `CudaLane` where the KV memory is on a GPU. */
  makeLane?: LaneFactory;
  /** A tier on disk behind the host tier; with it the connector has `diskBudgetMs`. */
  disk?: DiskOptions;
  /** The rank, which names the part of the disk tier. Default 0. */
  rank?: number;
}

export const CONNECTOR_OPTIONS = knownNames<OffloadConnectorOptions>('the options of an OffloadConnector', {
  hostBlocks: true,
  numRanks: true,
  maxPinnedBlocks: true,
  storeEvery: true,
  diskBudgetMs: true,
  hashSeed: true,
  now: true,
  strict: true,
});

export const WORKER_OPTIONS = knownNames<OffloadWorkerOptions>('the options of an OffloadWorker', {
  memory: true,
  hostBlocks: true,
  makeLane: true,
  disk: true,
  rank: true,
});

const MAX_BLOCKS = 2 ** 24;

/** @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkBlocks(name: string, value: unknown): number {
  return checkInteger(name, value, 1, MAX_BLOCKS);
}
