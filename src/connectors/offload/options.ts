// The options of an offload, and their checks.
import { checkInteger } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import type { LaneFactory } from '../base/kv-lanes.js';
import type { KvMemory, LanedMemory } from '../base/kv-memory.js';
import type { DiskOptions } from './tiers/disk-options.js';

/** Options of an `OffloadConnector`. */
export interface OffloadConnectorOptions {
  /**
   * Blocks of the host tier on each rank, equal to the option of every `OffloadWorker`. 1 to 2^24.
   */
  hostBlocks: number;
  /** Number of workers. Default 1. */
  numRanks?: number;
  /**
   * Maximum number of blocks of the pool that stores may pin at once. Blocks that become settled
   * meanwhile are stored later, or not at all if their requests end first. Default: a quarter of
   * the pool.
   */
  maxPinnedBlocks?: number;
  /**
   * Blocks of decoding requests are stored in every n-th step, 1 to 1,024. A larger value makes a
   * step cheaper and stores later. Settled blocks are lost to the tier if their request is
   * preempted first. Prompts are stored at once. Default 8.
   */
  storeEvery?: number;
  /**
   * Enables a disk tier behind the host tier: the maximum milliseconds that a request waits for
   * blocks from the disk. Default: no disk tier.
   */
  diskBudgetMs?: number;
  /**
   * The hash seed for a scheduler without a configured seed, 16 bytes, from a worker's disk tier
   * (`OffloadWorker.hashSeed`).
   */
  hashSeed?: Uint8Array;
  /** The clock, in milliseconds. Default `performance.now`. */
  now?: () => number;
  /**
   * Whether reports that no worker of this connector would send are thrown in addition to being
   * counted. Default false.
   */
  strict?: boolean;
}

/** Options of an `OffloadWorker`. */
export interface OffloadWorkerOptions {
  /**
   * The KV memory of this rank. A `ReferenceExecutor` is one, and a `LlamaExecutor` with
   * `kvTransfer`.
   */
  memory: KvMemory | LanedMemory;
  /**
   * Blocks of the host tier on this rank, equal to the option of the `OffloadConnector`. 1 to 2^24.
   */
  hostBlocks: number;
  /**
   * Makes the lanes that copy. Default: a `HostLane`, or a `CudaLane` if the KV memory is on a GPU.
   * Absent for KV memory that makes its own lanes.
   */
  makeLane?: LaneFactory;
  /** A tier on disk behind the host tier. The connector then needs `diskBudgetMs`. */
  disk?: DiskOptions;
  /** The rank, which names its part of the disk tier. Default 0. */
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
