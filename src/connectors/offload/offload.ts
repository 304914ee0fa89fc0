import { badArg, checkNumber, isRecord } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { checkHostMemory } from '../../base/host-memory.js';
import { knownNames } from '../../base/known-names.js';
import type { LaneFactory } from '../base/kv-lanes.js';
import { checkAnyMemory, type KvMemory, type LanedMemory } from '../base/kv-memory.js';
import { checkOptions } from '../base/option-checks.js';
import { OffloadConnector } from './offload-connector.js';
import { OffloadWorker } from './offload-worker.js';
import { checkBlocks } from './options.js';
import { checkDisk, type DiskOptions } from './tiers/disk-options.js';

/** Options of `offload`. */
export interface OffloadOptions {
  /** The KV memory of the rank, or of each rank. */
  memory: KvMemory | LanedMemory | readonly (KvMemory | LanedMemory)[];
  /** Bytes of host memory for the tier, over all ranks. Give either this or `hostBlocks`. */
  hostBytes?: number;
  /** Blocks of the tier on each rank, 1 to 2^24. */
  hostBlocks?: number;
  /** See `OffloadConnectorOptions`. */
  maxPinnedBlocks?: number;
  /** See `OffloadConnectorOptions`. */
  storeEvery?: number;
  /** See `OffloadConnectorOptions`. */
  strict?: boolean;
  /** See `OffloadWorkerOptions`. */
  makeLane?: LaneFactory;
  /**
   * A third tier, on disk. `budgetMs`: maximum milliseconds that a request waits for blocks from
   * the disk; default 200.
   */
  disk?: DiskOptions & { budgetMs?: number };
  /** See `OffloadConnectorOptions`. */
  now?: () => number;
}

/** A fast disk takes far less, and computing a long prompt takes more. */
const DISK_BUDGET_MS = 200;

const OPTIONS = knownNames<OffloadOptions>('the options of offload', {
  memory: true,
  hostBytes: true,
  hostBlocks: true,
  maxPinnedBlocks: true,
  storeEvery: true,
  strict: true,
  makeLane: true,
  disk: true,
  now: true,
});

/**
 * Makes both sides of an offload, for an engine whose ranks are all in this process:
 * `new Engine({ ...options, executor, ...offload({ memory: executor, hostBytes: 8 * 2 ** 30 }) })`.
 * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_MEMORY if the machine has too little memory for
 * the tier; ERR_BLOCKSTEP_CUDA
 */
export function offload(options: OffloadOptions): { connector: OffloadConnector; workers: OffloadWorker[] } {
  checkOptions(options, OPTIONS);
  const { memory, maxPinnedBlocks, storeEvery, strict, makeLane, now } = options;
  const memories = (Array.isArray(memory) ? memory : [memory]).map(checkAnyMemory);
  if (memories.length === 0) throw badArg('memory', memory, 'the KV memory of at least one rank');
  const bytesEach = memories.reduce((sum, { kv }) => sum + kv.bytesPerBlock, 0);
  const [disk, budgetMs] = parseDisk(options.disk);
  const hostBlocks = numBlocks(options, bytesEach);
  // The check covers all ranks together, because a worker knows only its own part.
  checkHostMemory('hostBlocks', hostBlocks, hostBlocks * bytesEach);
  const own = { ...(makeLane !== undefined && { makeLane }), ...(disk !== null && { disk }) };
  const workers: OffloadWorker[] = [];
  try {
    for (const [rank, each] of memories.entries())
      workers.push(new OffloadWorker({ memory: each, hostBlocks, rank, ...own }));
    const { hashSeed } = workers[0];
    const connector = new OffloadConnector({
      hostBlocks,
      numRanks: memories.length,
      ...(maxPinnedBlocks !== undefined && { maxPinnedBlocks }),
      ...(storeEvery !== undefined && { storeEvery }),
      ...(strict !== undefined && { strict }),
      ...(now !== undefined && { now }),
      ...(disk !== null && { diskBudgetMs: budgetMs }),
      ...(hashSeed !== null && { hashSeed }),
    });
    return { connector, workers };
  } catch (error) {
    for (const worker of workers) worker.shutdown();
    throw error;
  }
}

function parseDisk(given: OffloadOptions['disk']): [DiskOptions | null, number] {
  if (given === undefined) return [null, 0];
  if (!isRecord(given)) throw badArg('disk', given, 'an object with path and model');
  const { budgetMs = DISK_BUDGET_MS, ...disk } = given;
  return [checkDisk(disk), checkNumber('disk.budgetMs', budgetMs, 0)];
}

function numBlocks({ hostBytes, hostBlocks }: OffloadOptions, bytesEach: number): number {
  if (hostBytes === undefined) return checkBlocks('hostBlocks', hostBlocks);
  if (hostBlocks !== undefined) throw badArg('hostBlocks', hostBlocks, 'absent where hostBytes is given');
  return Math.floor(checkInteger('hostBytes', hostBytes, bytesEach, Number.MAX_SAFE_INTEGER) / bytesEach);
}
