import type {
  BlockLists,
  BlockReuse,
  ConnectorOutput,
  Finished,
  Match,
  SchedulerConnector,
  StoreStep,
  WorkerConnector,
  WorkerStep,
} from '../../../src/connector.js';
import type { Plan, ReferenceExecutor, Request, Scheduler } from '../../../src/index.js';
import { BlockArena, CompletionQueue, HostLane, Verdict } from '../../../src/transfer.js';
import { LaneJobs } from '../../support/lane-jobs.js';

interface Move {
  handle: number;
  host: Int32Array;
  device: Int32Array;
  /** The contents that are stored. */
  keys: bigint[];
}

interface Metadata {
  loads: (Move & { async: boolean })[];
  stores: Move[];
}

/** Blocks of the host tier by content. A store makes its content known when it is over, not earlier. */
export class HostTier {
  readonly blocks = new Map<bigint, number>();
  readonly reserved = new Set<bigint>();
  #next = 0;

  reserve(key: bigint): number {
    this.reserved.add(key);
    return this.#next++;
  }
}

/**
 * The smallest connector that really moves KV. Every full block of a prompt goes to a host tier,
 * and later requests with the same prompt load it from there. A request whose blocks are being
 * stored keeps them.
 */
export class LaneConnector implements SchedulerConnector<Metadata> {
  scheduler!: Scheduler;
  readonly tier: HostTier;
  readonly #isAsync: (request: Request) => boolean;
  #next: Metadata = { loads: [], stores: [] };
  readonly #local = new Map<number, number>();
  /** Requests of which something was stored: the worker reports each of them. */
  readonly #stored = new Set<number>();

  constructor(tier: HostTier, isAsync: (request: Request) => boolean) {
    this.tier = tier;
    this.#isAsync = isAsync;
  }

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    const { blockSize } = this.scheduler.config;
    const first = numLocalTokens / blockSize;
    let next = first;
    while ((next + 1) * blockSize < request.numTokens && this.#hostBlock(request, next) !== undefined) next++;
    this.#local.set(request.handle, first);
    const numTokens = (next - first) * blockSize;
    return { numTokens, async: numTokens > 0 && this.#isAsync(request) };
  }

  updateStateAfterAlloc(request: Request, [blocks]: BlockLists, numExternalTokens: number): void {
    if (numExternalTokens === 0) return;
    const first = this.#local.get(request.handle) as number;
    const device = blocks.slice(first, first + numExternalTokens / this.scheduler.config.blockSize);
    const host = device.map((_, i) => this.#hostBlock(request, first + i) as number);
    this.#next.loads.push({ handle: request.handle, host, device, keys: [], async: this.#isAsync(request) });
  }

  buildMetadata(plan: Plan): Metadata {
    const { core, config } = this.scheduler;
    for (let i = 0; i < plan.numRequests; i++) {
      const request = plan.requests[i];
      const after = Math.min(plan.numComputedTokens[i] + plan.numScheduledTokens[i], request.numPromptTokens);
      const blocks = core.blocks(request.slot);
      const store: Move = {
        handle: request.handle,
        host: new Int32Array(0),
        device: new Int32Array(0),
        keys: [],
      };
      for (
        let b = Math.floor(plan.numComputedTokens[i] / config.blockSize);
        (b + 1) * config.blockSize <= after;
        b++
      ) {
        const key = core.native.blockHash(request.slot, b);
        if (this.tier.reserved.has(key)) continue;
        store.host = Int32Array.of(...store.host, this.tier.reserve(key));
        store.device = Int32Array.of(...store.device, blocks[b]);
        store.keys.push(key);
      }
      if (store.keys.length === 0) continue;
      this.#next.stores.push(store);
      this.#stored.add(request.handle);
    }
    const metadata = this.#next;
    this.#next = { loads: [], stores: [] };
    return metadata;
  }

  requestFinished({ handle }: Request): Finished {
    return { delayFree: this.#stored.delete(handle) };
  }

  #hostBlock(request: Request, index: number): number | undefined {
    return this.tier.blocks.get(this.scheduler.core.native.blockHash(request.slot, index));
  }
}

/** Its worker side: one lane in each direction between the executor's KV memory and the tier. */
export class LaneWorker implements WorkerConnector<Metadata> {
  readonly queue = new CompletionQueue({ capacity: 256 });
  readonly jobs = new LaneJobs();
  readonly host: BlockArena;
  readonly loads: HostLane;
  readonly stores: HostLane;
  loaded = 0;
  stored = 0;
  readonly #executor: ReferenceExecutor;
  readonly #tier: HostTier;
  readonly #keys = new Map<number, { keys: bigint[]; host: Int32Array }>();
  /** Requests of which something is or was stored, and those of them that have finished. */
  readonly #storing = new Set<number>();
  readonly #finished = new Set<number>();
  /** Jobs of loads that were there when their step was executed. */
  readonly #sync = new Set<number>();

  constructor(executor: ReferenceExecutor, tier: HostTier, hostBlocks: number) {
    const { kv } = executor;
    this.#executor = executor;
    this.#tier = tier;
    this.host = BlockArena.allocate({ numBlocks: hostBlocks, bytesPerBlock: kv.bytesPerBlock });
    this.loads = new HostLane(this.queue, this.host, kv);
    this.stores = new HostLane(this.queue, kv, this.host);
  }

  handlePreemptions(_metadata: Metadata | undefined, { released }: BlockReuse): void {
    for (const handle of released) {
      const jobs = this.jobs.of(handle).filter(({ kind }) => kind === 'store');
      this.stores.flush(Int32Array.from(jobs, ({ job }) => job));
    }
  }

  startLoads(metadata: Metadata | undefined, { notBefore }: WorkerStep): void {
    const { loads, stores } = metadata as Metadata;
    for (const { handle } of stores) this.#storing.add(handle);
    for (const { handle, host, device, async: isAsync } of loads) {
      const job = this.loads.submit(host, device, isAsync ? notBefore : -1);
      this.jobs.add(this.queue, job, { handle, kind: 'load', blocks: device });
      if (isAsync) continue;
      this.loads.flush(Int32Array.of(job));
      this.#executor.adopt(handle, device);
      this.#sync.add(job);
    }
  }

  startStores(metadata: Metadata | undefined, { failed }: StoreStep): void {
    const { stores } = metadata as Metadata;
    for (const { handle, host, device, keys } of stores) {
      if (failed.includes(handle)) continue;
      const job = this.stores.submit(device, host);
      this.jobs.add(this.queue, job, { handle, kind: 'store', blocks: device });
      this.#keys.set(job, { keys, host });
    }
  }

  onStepSettled(step: number): void {
    this.loads.settle(step);
  }

  getFinished(finished: readonly number[]): ConnectorOutput {
    const finishedReceiving: { handle: number }[] = [];
    this.queue.drain((job, verdict) => {
      if (verdict !== Verdict.ok) throw new Error(`job ${job} ended with ${verdict}`);
      const { handle, kind, blocks } = this.jobs.complete(this.queue, job);
      if (kind === 'store') this.#stored(job);
      else {
        this.loaded += blocks.length;
        if (!this.#sync.delete(job)) this.#executor.adopt(handle, blocks);
        finishedReceiving.push({ handle });
      }
    });
    for (const handle of finished) if (this.#storing.has(handle)) this.#finished.add(handle);
    const sent = [...this.#finished].filter((handle) => !this.jobs.has(handle, 'store'));
    for (const handle of sent) {
      this.#finished.delete(handle);
      this.#storing.delete(handle);
    }
    return { finishedReceiving, finishedSending: sent.map((handle) => ({ handle })) };
  }

  shutdown(): void {
    this.loads.dispose();
    this.stores.dispose();
  }

  #stored(job: number): void {
    const { keys, host } = this.#keys.get(job) as { keys: bigint[]; host: Int32Array };
    this.#keys.delete(job);
    keys.forEach((key, i) => {
      this.#tier.blocks.set(key, host[i]);
    });
    this.stored += keys.length;
  }
}
