import { badArg, checkName } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import type { LaneFactory } from '../base/kv-lanes.js';
import type { KvMemory } from '../base/kv-memory.js';
import { checkOptions } from '../base/option-checks.js';

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
  /** The clock, in milliseconds. Default `performance.now`. */
  now?: () => number;
  /** Whether reports that no worker of this connector would send are thrown, and not only counted. Default false. */
  strict?: boolean;
}

/** A tier on disk behind the host tier: one embedded store for each rank. It needs the package `lmdb`. */
export interface DiskOptions {
  /** The directory, which is made where there is none. It belongs to one engine at a time. */
  path: string;
  /**
   * What the KV is of: the model, its version, its numeric type, whatever changes the KV of equal tokens. An engine finds
   * what an earlier one stored only if both have this name, the size of a block, and the scheduler's `hashSeed`.
   */
  model: string;
  /** Most bytes on each rank, at least 1 MiB. What was not used for longest goes first. Default 16 GiB. */
  maxBytes?: number;
  /** Most milliseconds of one access to the disk; a slower one counts as a miss. Default 5,000. */
  timeoutMs?: number;
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

const DISK = knownNames<DiskOptions>('the options of a disk tier', {
  path: true,
  model: true,
  maxBytes: true,
  timeoutMs: true,
});

const MAX_BLOCKS = 2 ** 24;

/** @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkBlocks(name: string, value: unknown): number {
  return checkInteger(name, value, 1, MAX_BLOCKS);
}

/** Checks what the store behind does not. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkDisk(disk: unknown): DiskOptions {
  checkOptions(disk, DISK);
  const { path, model } = disk as DiskOptions;
  if (typeof path !== 'string' || path === '') throw badArg('disk.path', path, 'the path of a directory');
  checkName('disk.model', model, 1);
  return disk as DiskOptions;
}
