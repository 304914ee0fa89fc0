import { checkInteger, describeError } from '../../base/errors.js';
import { checkHostMemory } from '../../base/host-memory.js';
import type {
  TransferReport,
  WorkerConnector,
  WorkerOutput,
  WorkerStep,
} from '../../scheduler/connector/connector.js';
import type { BlockArena } from '../../transfer/block-arena.js';
import { Verdict } from '../../transfer/verdict.js';
import { type JobEnd, KvLanes } from '../base/kv-lanes.js';
import { checkAnyMemory, hostArenaFor } from '../base/kv-memory.js';
import { checkLaneFactory, checkOptions } from '../base/option-checks.js';
import type { StoreStats } from '../store/client/store-counts.js';
import { checkBlocks, type OffloadWorkerOptions, WORKER_OPTIONS } from './options.js';
import { checkDisk } from './tiers/disk-options.js';
import { DiskTier } from './tiers/disk-tier.js';
import type { DiskEnd, DiskOrders, LoadOrder, OffloadOrders, OffloadReport } from './tiers/orders.js';

const MAX_RANK = 65_535;

/** Statistics of an `OffloadWorker`. */
export interface OffloadWorkerStats {
  /** Bytes of the host tier on this rank. */
  readonly hostBytes: number;
  /** Copies that the lanes have not finished. */
  readonly pending: number;
  /** Statistics of the disk tier's store; null without a disk tier. */
  readonly disk: StoreStats | null;
  /** Loads and stores that failed or were cancelled. */
  readonly failed: number;
  /** The message of the last error; null if there was none. */
  readonly lastError: string | null;
}

/**
 * The worker side of an offload, on one rank. It holds the rank's part of the host tier, and copies
 * between that part and the KV memory. The worker knows jobs, blocks and places; of requests it
 * knows only the handle for the report. The end of a request can therefore remove nothing that the
 * worker needs later. Every order ends in one report, even if it could not begin.
 */
export class OffloadWorker implements WorkerConnector<OffloadOrders | null, OffloadReport> {
  readonly #tier: BlockArena;
  readonly #lanes: KvLanes;
  readonly #disk: DiskTier | null;
  #closed: Promise<void> = Promise.resolve();
  #saidSize = false;
  #stores: number[] = [];
  #loads: number[] = [];
  /** By request: number of copies of its load that have not ended. */
  readonly #copying = new Map<number, number>();
  #received: TransferReport[] = [];
  #failedLoads: TransferReport[] = [];
  /** Ends of disk orders that this worker refused because it has no disk tier. */
  #diskless: DiskEnd[] = [];
  #numFailed = 0;
  #lastError: string | null = null;

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_MEMORY if the machine has too little memory for
   * the tier; ERR_BLOCKSTEP_CUDA
   */
  constructor(options: OffloadWorkerOptions) {
    checkOptions(options, WORKER_OPTIONS);
    const memory = checkAnyMemory(options.memory);
    const hostBlocks = checkBlocks('hostBlocks', options.hostBlocks);
    const makeLane = checkLaneFactory(options.makeLane, memory);
    const disk = options.disk === undefined ? null : checkDisk(options.disk);
    const rank = checkInteger('rank', options.rank ?? 0, 0, MAX_RANK);
    checkHostMemory('hostBlocks', hostBlocks, hostBlocks * memory.kv.bytesPerBlock);
    this.#tier = hostArenaFor(memory.kv, hostBlocks);
    this.#lanes = new KvLanes(memory, this.#tier, makeLane);
    this.#disk = disk === null ? null : new DiskTier(disk, this.#tier, rank);
  }

  startLoads(orders: OffloadOrders | null | undefined, { step, notBefore }: WorkerStep): void {
    if (orders == null) return;
    const { hostBlocks, stores, loads, disk } = orders;
    const mine = this.#tier.numBlocks;
    const wrong =
      hostBlocks === mine ? null : `the connector has ${hostBlocks} hostBlocks, this worker ${mine}`;
    // Blocks to store are settled and pinned, so they can be read at once.
    for (const { job, blocks, places } of stores) {
      const end: JobEnd = (verdict) => this.#stored(job, verdict);
      this.#begin(wrong, end, () => this.#lanes.store(blocks, places, end));
    }
    for (const load of loads) {
      const { handle, blocks, places } = load;
      const end: JobEnd = (verdict) => this.#loaded(load, step, verdict);
      this.#begin(wrong, end, () => {
        this.#copying.set(handle, this.#lanes.load(handle, places, blocks, notBefore, end));
      });
    }
    if (disk !== undefined) this.#beginDisk(disk);
  }

  #cancel(handle: number): void {
    const job = this.#copying.get(handle);
    if (job !== undefined) this.#lanes.cancel(job);
  }

  #beginDisk(disk: DiskOrders): void {
    if (this.#disk !== null) {
      this.#disk.begin(disk);
      return;
    }
    this.#lastError = 'the connector has a disk tier, this worker none';
    for (const { job, keys } of [...disk.finds, ...disk.reads, ...disk.writes])
      this.#diskless.push({ job, good: new Uint8Array(keys.length) });
  }

  onStepSettled(step: number): void {
    this.#lanes.settle(step);
  }

  getFinished(finished: readonly number[]): WorkerOutput<OffloadReport> | null {
    // No request waits for the load of an ended request, whose blocks are free when the load ends.
    if (this.#copying.size > 0) for (const handle of finished) this.#cancel(handle);
    this.#lanes.drain();
    const ended = this.#disk?.drain() ?? this.#drainDiskless();
    const numEnded = this.#stores.length + this.#loads.length + ended.length;
    if (numEnded === 0 && this.#saidSize) return null;
    const { bytesPerBlock } = this.#tier;
    const size = this.#saidSize ? {} : { bytesPerBlock };
    const began = this.#saidSize ? undefined : this.#disk?.began;
    const output = {
      finishedReceiving: this.#received,
      failedReceiving: this.#failedLoads,
      metadata: {
        ...size,
        stores: this.#stores,
        loads: this.#loads,
        ...((ended.length > 0 || began) && { disk: { ended, ...(began && { began }) } }),
      },
    };
    this.#saidSize = true;
    this.#stores = [];
    this.#loads = [];
    this.#received = [];
    this.#failedLoads = [];
    return output;
  }

  /**
   * Ends every copy at once. Afterwards no earlier operation touches the KV memory. The call waits
   * for copies that have begun. Call it before `Engine.fenceTransfers`.
   */
  fence(): void {
    this.#lanes.fence();
  }

  /**
   * Ends every copy, and frees the tier's memory when the disk tier no longer uses it; see
   * `closed`.
   */
  shutdown(): void {
    this.#lanes.dispose();
    if (this.#disk === null) this.#tier.dispose();
    else this.#closed = this.#disk.close().then(() => this.#tier.dispose());
  }

  /**
   * The hash seed that the disk tier keeps for schedulers without a configured seed, 16 bytes; null
   * without a disk tier.
   */
  get hashSeed(): Uint8Array | null {
    return this.#disk?.hashSeed ?? null;
  }

  /**
   * Resolves when the disk tier was closed after `shutdown`. Another engine may then use its
   * directory.
   */
  get closed(): Promise<void> {
    return this.#closed;
  }

  stats(): OffloadWorkerStats {
    return {
      hostBytes: this.#tier.numBytes,
      pending: this.#lanes.numPending,
      disk: this.#disk?.stats() ?? null,
      failed: this.#numFailed,
      lastError: this.#lastError,
    };
  }

  /**
   * Begins a copy. An error must not be thrown here: the engine would treat every load of the plan
   * as over while lanes still copy some of them.
   */
  #begin(wrong: string | null, end: JobEnd, submit: () => unknown): void {
    try {
      if (wrong === null) {
        submit();
        return;
      }
      this.#lastError = wrong;
    } catch (error) {
      this.#lastError = describeError(error);
    }
    end(Verdict.failed);
  }

  #drainDiskless(): DiskEnd[] {
    const ended = this.#diskless;
    if (ended.length > 0) this.#diskless = [];
    return ended;
  }

  #stored(job: number, verdict: Verdict): void {
    if (verdict !== Verdict.ok) this.#numFailed++;
    this.#stores.push(job, verdict);
  }

  #loaded({ job, handle }: LoadOrder, step: number, verdict: Verdict): void {
    this.#copying.delete(handle);
    this.#loads.push(job, verdict);
    this.#received.push({ handle, step });
    if (verdict === Verdict.ok) return;
    this.#numFailed++;
    this.#failedLoads.push({ handle, step });
  }
}
