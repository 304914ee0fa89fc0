// An engine with an offload, whose steps and copies a test carries out one by one.
import type { SchedulerConnector, WorkerConnector } from '../../../src/connector.js';
import {
  type OffloadConnector,
  type OffloadOptions,
  type OffloadWorker,
  offload,
} from '../../../src/connectors/offload/index.js';
import {
  Engine,
  type EngineOptions,
  type RequestResult,
  type RequestStream,
  type SubmitInput,
} from '../../../src/index.js';
import { settled } from '../../support/engine-bench.js';
import { Ranks } from '../support/ranks.js';
import { SteppedLane } from '../support/stepped-lane.js';

export const BLOCK = 4;
export const SEED = 3;

export const SIZES = {
  numBlocks: 41,
  blockSize: BLOCK,
  maxNumSeqs: 6,
  maxNumBatchedTokens: 48,
  maxModelLen: 64,
};

/** The options in which a bench differs from the plain one. */
export interface BenchOptions {
  engine?: Partial<EngineOptions>;
  numRanks?: number;
  offload?: Partial<OffloadOptions>;
  /** Stands between the engine and the scheduler side, or a worker. */
  wrap?: (connector: OffloadConnector) => SchedulerConnector;
  wrapWorker?: (worker: OffloadWorker, rank: number) => WorkerConnector;
  /** Lanes copy by themselves. Default: only when the test orders it. */
  realLanes?: boolean;
}

/** An engine with an offload, over reference executors that compute when the test orders it. */
export class OffloadBench {
  readonly executor: Ranks;
  readonly connector: OffloadConnector;
  readonly workers: readonly OffloadWorker[];
  readonly engine: Engine;
  /** The lanes of each rank: first the one that loads, then the one that stores. */
  readonly lanes: SteppedLane[] = [];
  time = 1000;

  constructor(options: BenchOptions = {}) {
    const { engine = {}, numRanks = 1, offload: own = {}, realLanes = false } = options;
    const { wrap = (same) => same, wrapWorker = (same) => same } = options;
    const sizes = { ...SIZES, ...engine };
    const { executor: _, ...rest } = sizes as EngineOptions;
    this.executor = new Ranks(numRanks, { ...rest, seed: SEED });
    const { connector, workers } = offload({
      memory: this.executor.ranks,
      hostBlocks: 200,
      storeEvery: 1,
      strict: true,
      now: () => this.time,
      ...(!realLanes && {
        makeLane: (...between) => {
          const lane = new SteppedLane(...between);
          this.lanes.push(lane);
          return lane;
        },
      }),
      ...own,
    });
    this.connector = connector;
    this.workers = workers;
    this.engine = new Engine({
      hashSeed: 7,
      strict: true,
      now: () => this.time,
      ...rest,
      executor: this.executor,
      connector: wrap(connector),
      workers: workers.map(wrapWorker),
    });
  }

  submit(input: SubmitInput): RequestStream {
    return this.engine.submit(input);
  }

  /** Computes the oldest step, and passes on its answer. */
  async compute(): Promise<void> {
    this.executor.waiting.shift()?.();
    await settled();
  }

  /** Ends every copy that can be made. */
  copyAll(): void {
    for (const lane of this.lanes) lane.flush();
  }

  /** Steps, computes and copies until nothing is left to do. */
  async finish(most = 2000): Promise<void> {
    for (let rounds = 0; this.engine.hasWork(); ) {
      // Another process answers for the disk, in its own time.
      if ((this.connector.stats().disk?.inFlight ?? 0) > 0)
        await new Promise((resolve) => setTimeout(resolve, 1));
      else rounds++;
      if (rounds === most) throw new Error(`still at work: ${JSON.stringify(this.engine.stats().scheduler)}`);
      this.engine.step();
      await this.compute();
      this.copyAll();
    }
  }

  /** Waits until the disk tier has ended its work. */
  async restDisk(): Promise<void> {
    while ((this.connector.stats().disk?.inFlight ?? 0) > 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      this.engine.step();
      await this.compute();
      this.copyAll();
    }
  }

  /** A request from its submission to its end, with nothing beside it. */
  async serve(input: SubmitInput): Promise<RequestResult> {
    const stream = this.submit(input);
    await this.finish();
    return stream.result();
  }

  /** Work that should be over and is not; empty when all is well. */
  leftovers(): string[] {
    const { engine, connector } = this;
    engine.verify();
    const found: string[] = [];
    const expect = (name: string, value: unknown, wanted: unknown): void => {
      if (JSON.stringify(value) !== JSON.stringify(wanted)) found.push(`${name}: ${JSON.stringify(value)}`);
    };
    const { scheduler, workerFailures, streams } = engine.stats();
    const { numRunning, numWaiting, numSkipped, numDraining, rowsInUse, freeBlocks } = scheduler;
    expect(
      'requests',
      [numRunning, numWaiting, numSkipped, numDraining, rowsInUse, streams],
      [0, 0, 0, 0, 0, 0],
    );
    expect('free blocks', freeBlocks, engine.scheduler.config.numBlocks - 1);
    expect('worker failures', workerFailures, 0);
    const { host, disk, pinnedBlocks, waiting, tracked } = connector.stats();
    expect('pins, waiters, tables', [pinnedBlocks, waiting, tracked], [0, 0, 0]);
    expect('disk', [disk?.inFlight ?? 0, disk?.waiting ?? 0, disk?.tracked ?? 0], [0, 0, 0]);
    expect('in flight', [host.loads.inFlight, host.stores.inFlight], [0, 0]);
    const { free, idle, used, filling } = host.places;
    expect('places', [used, filling, free + idle, idle], [0, 0, host.capacityBlocks, host.blocks]);
    expect('pending work', connector.hasPendingWork(), false);
    for (const worker of this.workers) expect('copies', worker.stats().pending, 0);
    return found;
  }

  /** Disposes everything. @returns resolves when another engine may use the directory of the disk tier */
  async close(): Promise<void> {
    this.dispose();
    await Promise.all(this.workers.map(({ closed }) => closed));
  }

  dispose(): void {
    this.engine.dispose();
    this.executor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
