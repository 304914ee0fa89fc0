import { checkInteger } from '../../../base/errors.js';
import { knownNames } from '../../../base/known-names.js';
import type {
  InvalidBlock,
  TransferReport,
  WorkerConnector,
  WorkerOutput,
  WorkerStep,
} from '../../../scheduler/connector/connector.js';
import { Verdict } from '../../../transfer/verdict.js';
import { KvLanes, type LaneFactory } from '../../base/kv-lanes.js';
import { checkAnyMemory, type KvMemory, type LanedMemory } from '../../base/kv-memory.js';
import { checkClock, checkLaneFactory, checkOptions } from '../../base/option-checks.js';
import { StoreThread } from '../client/store-thread.js';
import { blockKey } from '../scheduler/block-names.js';
import type { StoreOrders, StoreSaid } from '../scheduler/store-orders.js';
import { SlotFile } from '../slots/slot-file.js';
import { checkStore, type StoreOptions } from '../stores/store-options.js';
import { Staging } from './staging.js';
import { type Read, StoreReads } from './store-reads.js';
import { StoreWrites } from './store-writes.js';

/** Options of a `StoreWorker`. */
export interface StoreWorkerOptions {
  /** The KV memory of this rank. */
  memory: KvMemory | LanedMemory;
  /** The store that keeps the blocks, equal to the `StoreConnector`'s option. */
  store: StoreOptions;
  /** This worker's place in `EngineOptions.workers`. Default 0. */
  rank?: number;
  /**
   * Maximum memory for blocks under way, in bytes; at least two blocks, and preferably less than 4
   * GiB. Default 256 MiB.
   */
  stagingBytes?: number;
  /**
   * Maximum time of a read or a write of at most 8 MiB, in milliseconds; slower ones count as
   * failed. Default 1,000.
   */
  timeoutMs?: number;
  /**
   * First and longest pause after a failure of the store, in milliseconds. Default 100 and 5,000.
   */
  pauseMs?: number;
  maxPauseMs?: number;
  /** The clock, in milliseconds. Default `performance.now`. */
  now?: () => number;
  /** Makes the lanes between the KV memory and the staging arena. Default: a `CudaLane` or a `HostLane`. */
  makeLane?: LaneFactory;
}

const OPTIONS = knownNames<StoreWorkerOptions>('the options of a StoreWorker', {
  memory: true,
  store: true,
  rank: true,
  stagingBytes: true,
  timeoutMs: true,
  pauseMs: true,
  maxPauseMs: true,
  now: true,
  makeLane: true,
});
/** Bytes of one read or write; at least one block. */
const PART_BYTES = 2 ** 23;

/**
 * Worker side of a `StoreConnector`, one for each rank. It moves blocks between the KV memory and
 * the store, through a staging arena. Lanes copy between KV memory and staging, and a thread
 * accesses the store. No method waits for either.
 */
export class StoreWorker implements WorkerConnector<StoreOrders | null, StoreSaid> {
  readonly #memory: KvMemory | LanedMemory;
  readonly #rank: number;
  readonly #staging: Staging;
  readonly #thread: StoreThread;
  readonly #lanes: KvLanes;
  readonly #reads: StoreReads;
  readonly #writes: StoreWrites;
  #received: TransferReport[] = [];
  #invalid: InvalidBlock[] = [];
  #copied: { job: number; verdict: Verdict }[] = [];
  #loaded: { job: number; numGood: number }[] = [];
  #unstored: bigint[] = [];
  #numMismatches = 0;

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_MEMORY if the machine has no room for the
   * staging arena; ERR_BLOCKSTEP_NO_PACKAGE and ERR_BLOCKSTEP_BAD_FILE as in `StoreConnector`;
   * ERR_BLOCKSTEP_CUDA
   */
  constructor(options: StoreWorkerOptions) {
    checkOptions(options, OPTIONS);
    const { store, rank = 0, stagingBytes = 2 ** 28, ...others } = options;
    const { timeoutMs = 1000, pauseMs = 100, maxPauseMs = 5000 } = others;
    this.#memory = checkAnyMemory(options.memory);
    this.#rank = checkInteger('rank', rank, 0, 1023);
    checkInteger('stagingBytes', stagingBytes, 1, 2 ** 46);
    const makeLane = checkLaneFactory(options.makeLane, this.#memory);
    const now = checkClock(options.now);
    // The file is opened before the staging arena, which may be large, is allocated.
    const settings = checkStore(store);
    const file = settings.kind === 'embedded' ? SlotFile.open(settings.path) : null;
    try {
      this.#staging = new Staging(this.#memory.kv, stagingBytes);
      const { arena: staging } = this.#staging;
      this.#thread = new StoreThread({ store, staging, timeoutMs, pauseMs, maxPauseMs, now }, file);
    } catch (error) {
      file?.release();
      throw error;
    }
    const { arena } = this.#staging;
    this.#lanes = new KvLanes(this.#memory, arena, makeLane);
    const partBlocks = Math.max(1, Math.floor(PART_BYTES / arena.bytesPerBlock));
    this.#reads = new StoreReads(this.#thread, this.#lanes, this.#staging, partBlocks, (read, numGood) =>
      this.#readOver(read, numGood),
    );
    this.#writes = new StoreWrites(this.#thread, this.#lanes, this.#staging, partBlocks, {
      copied: (job, verdict) => this.#copied.push({ job, verdict }),
      unstored: (hash) => this.#unstored.push(hash),
    });
  }

  /** Returns statistics of the reads, the writes, and the state of the store. Plain data. */
  stats() {
    // An idle engine does not poll its workers, and the store may have answered meanwhile.
    this.#thread.drain();
    const { numUsed, arena } = this.#staging;
    return {
      stagingBlocks: arena.numBlocks,
      stagingBytes: arena.numBytes,
      stagingBlocksInUse: numUsed,
      loads: this.#reads.size,
      /**
       * Orders that were refused because the block sizes of the connector's format and the KV
       * memory differ.
       */
      mismatches: this.#numMismatches,
      store: this.#thread.stats(),
    };
  }

  startLoads(orders: StoreOrders | null | undefined, { step, notBefore }: WorkerStep): void {
    if (orders === undefined || orders === null) return;
    const { space, bytesPerBlock, loads, store } = orders;
    if (bytesPerBlock !== this.#memory.kv.bytesPerBlock) {
      this.#refuse(orders, step);
      return;
    }
    const keysOf = (hashes: readonly bigint[]): string[] =>
      hashes.map((hash) => blockKey(space, 0, this.#rank, hash));
    for (const { job, handle, hashes, blocks } of loads)
      this.#reads.add({ job, handle, step, notBefore, keys: keysOf(hashes), blocks });
    if (store !== null) this.#writes.add({ ...store, keys: keysOf(store.hashes) });
    this.#pump();
  }

  onStepSettled(step: number): void {
    this.#lanes.settle(step);
  }

  getFinished(finished: readonly number[]): WorkerOutput<StoreSaid> | null {
    if (this.#reads.size > 0) for (const handle of finished) this.#reads.cancel(handle);
    if (this.#thread.numPending > 0) this.#thread.drain();
    if (this.#lanes.numPending > 0) this.#lanes.drain();
    this.#pump();
    const [copied, loaded, unstored] = [this.#copied, this.#loaded, this.#unstored];
    if (copied.length + loaded.length + unstored.length === 0) return null;
    const output = {
      finishedReceiving: this.#received,
      invalidBlocks: this.#invalid,
      metadata: { copied, loaded, unstored },
    };
    this.#received = [];
    this.#invalid = [];
    this.#copied = [];
    this.#loaded = [];
    this.#unstored = [];
    return output;
  }

  /**
   * Ends every load and every store at once. Afterwards no earlier operation touches the KV memory.
   * The call waits for copies that have begun. Call it before `Engine.fenceTransfers`.
   */
  fence(): void {
    this.#lanes.fence();
    this.#reads.fence();
    this.#writes.fence();
  }

  shutdown(): void {
    this.#lanes.dispose();
    // The thread may still write the places that it was given.
    void this.#thread.close().then(() => this.#staging.arena.dispose());
  }

  #pump(): void {
    this.#reads.pump();
    this.#writes.pump();
  }

  /**
   * Reports a load. Blocks after a missing one may have arrived; they are computed again with it.
   */
  #readOver({ job, handle, step, blocks }: Read, numGood: number): void {
    for (const block of blocks.subarray(numGood)) this.#invalid.push({ block, handle });
    this.#received.push({ handle, step });
    this.#loaded.push({ job, numGood });
  }

  #refuse({ loads, store }: StoreOrders, step: number): void {
    this.#numMismatches++;
    for (const { job, handle, blocks } of loads)
      this.#readOver({ job, handle, step, notBefore: -1, keys: [], blocks }, 0);
    if (store !== null) this.#copied.push({ job: store.job, verdict: Verdict.failed });
  }
}
