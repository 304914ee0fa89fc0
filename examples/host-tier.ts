/**
 * A tier of KV blocks in host memory, as small as an honest tier can be. KV that requests have
 * computed goes there while they run. Later requests with the same beginning load it from there. It
 * works on any number of ranks and with any number of steps in flight. `docs/connector-contract.md`
 * walks through it.
 *
 *     const tier = new HostTier({ places: 4096, numRanks: 1 });
 *     const worker = new HostTierWorker({ kv: executor.kv, places: 4096 });
 *     new Engine({ ...options, executor, connector: tier, workers: [worker] });
 *
 *     npx tsx examples/host-tier.ts
 *
 * prints how much of a prompt comes back from the tier.
 */
import { pathToFileURL } from 'node:url';
import { Anomalies, Engine, type FinishReason, ReferenceExecutor } from 'blockstep';
import type {
  BlockLists,
  ConnectorOutput,
  ConnectorPlan,
  ConnectorRequest,
  Finished,
  HandOver,
  KvView,
  Match,
  SchedulerConnector,
  TransferReport,
  WorkerConnector,
  WorkerOutput,
  WorkerStep,
} from 'blockstep/connector';
import { BlockArena, CompletionQueue, HostLane, type Lane, RankedJobs, Verdict } from 'blockstep/transfer';

/** Blocks of a request, and the places of the tier that they are copied from or to. */
interface Copy {
  readonly handle: number;
  readonly blocks: Int32Array;
  readonly places: Int32Array;
}

/** The copies that the workers make for a plan. */
export interface Orders {
  readonly loads: readonly Copy[];
  readonly stores: readonly (Copy & { readonly job: number })[];
}

/** The report of a worker about stores: a job of the tier, and whether it was copied. */
export type Stored = readonly { readonly job: number; readonly verdict: Verdict }[];

/** Scheduler side: knows what lies where in the tier. */
export class HostTier implements SchedulerConnector<Orders, Stored> {
  readonly #ranks: readonly number[];
  readonly #jobs = new RankedJobs<{ handle: number; keys: bigint[]; places: Int32Array }>(
    new Anomalies(false),
  );
  /** The place of each block that lies in the tier, by the hash of all tokens up to its end. */
  readonly #places = new Map<bigint, number>();
  /** Hashes of blocks that are on their way. */
  readonly #coming = new Set<bigint>();
  readonly #free: number[];
  /** Of each request, how many of its blocks were stored or need not be. */
  readonly #done = new Map<number, number>();
  #loads: Copy[] = [];
  #stores: (Copy & { job: number })[] = [];
  #view!: KvView;

  constructor({ places, numRanks }: { places: number; numRanks: number }) {
    this.#ranks = Array.from({ length: numRanks }, (_, rank) => rank);
    this.#free = Array.from({ length: places }, (_, place) => place);
  }

  bind(view: KvView): void {
    if (!view.hasHashes)
      throw new Error('the tier finds blocks by their hashes: it needs enablePrefixCaching');
    if (view.layout !== '')
      throw new Error('the tier keeps the blocks of one group: it cannot have kvGroups');
    this.#view = view;
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numLocalTokens: number): Match {
    const { blockSize } = this.#view;
    const first = numLocalTokens / blockSize;
    // The last token is always computed, to sample from.
    const end = Math.floor((request.numTokens - 1) / blockSize);
    let next = first;
    while (next < end && this.#places.has(this.#view.blockHash(request, next))) next++;
    return { numTokens: (next - first) * blockSize, async: next > first };
  }

  updateStateAfterAlloc(request: ConnectorRequest, [blocks]: BlockLists, numExternalTokens: number): void {
    const count = numExternalTokens / this.#view.blockSize;
    if (count === 0) return;
    // The blocks to load are the last of its blocks, behind the local hits. The list is borrowed,
    // so this is a copy.
    const own = blocks.slice(-count);
    const first = blocks.length - count;
    const places = own.map((_, i) => this.#places.get(this.#view.blockHash(request, first + i)) as number);
    this.#loads.push({ handle: request.handle, blocks: own, places });
  }

  buildMetadata(plan: ConnectorPlan): Orders {
    for (let i = 0; i < plan.numRequests; i++) {
      const request = plan.requests[i];
      this.#storeUpTo(request, this.#view.extent(request).numSettledTokens);
    }
    const orders = { loads: this.#loads, stores: this.#stores };
    this.#loads = [];
    this.#stores = [];
    return orders;
  }

  updateConnectorOutput({ workerMetadata = [] }: ConnectorOutput<Stored>): void {
    for (const { rank, metadata } of workerMetadata) {
      for (const { job, verdict } of metadata) this.#reported(job, rank, verdict);
    }
  }

  requestFinished(
    request: ConnectorRequest,
    _reason: FinishReason,
    { numSettledTokens }: HandOver,
  ): Finished {
    this.#storeUpTo(request, numSettledTokens);
    this.#done.delete(request.handle);
    // Blocks of unfinished stores are held already, each store by its name.
    return { delayFree: false };
  }

  resetCache(): boolean {
    if (this.#jobs.size > 0) return false;
    for (const place of this.#places.values()) this.#free.push(place);
    this.#places.clear();
    return true;
  }

  /** Orders the store of every full block of the request's first `numTokens` tokens that the tier has not. */
  #storeUpTo(request: ConnectorRequest, numTokens: number): void {
    const { handle } = request;
    const end = Math.floor(numTokens / this.#view.blockSize);
    const from = this.#done.get(handle) ?? 0;
    if (end <= from) return;
    const keys: bigint[] = [];
    const indexes: number[] = [];
    for (let index = from; index < end; index++) {
      const key = this.#view.blockHash(request, index);
      if (this.#places.has(key) || this.#coming.has(key) || keys.length === this.#free.length) continue;
      keys.push(key);
      indexes.push(index);
    }
    this.#done.set(handle, end);
    if (keys.length === 0) return;
    const [blocks] = this.#view.blocks(request);
    const places = Int32Array.from(this.#free.splice(-keys.length));
    for (const key of keys) this.#coming.add(key);
    const job = this.#jobs.begin(this.#ranks, { handle, keys, places });
    // From here on nobody gets these blocks until the store is over, whatever becomes of the request.
    this.#view.hold(handle, 'store', `tier ${job}`);
    this.#stores.push({ handle, job, blocks: Int32Array.from(indexes, (index) => blocks[index]), places });
  }

  #reported(job: number, rank: number, verdict: Verdict): void {
    const over = this.#jobs.report(job, rank, verdict);
    if (over === null) return;
    const { handle, keys, places } = over.payload;
    for (const [i, key] of keys.entries()) {
      this.#coming.delete(key);
      if (over.verdict === Verdict.ok) this.#places.set(key, places[i]);
      else this.#free.push(places[i]);
    }
    this.#view.complete(handle, 'store', `tier ${job}`);
  }
}

/** Worker side of one rank: copies. */
export class HostTierWorker implements WorkerConnector<Orders, Stored> {
  readonly #queue = new CompletionQueue();
  readonly #tier: BlockArena;
  readonly #toDevice: Lane;
  readonly #toHost: Lane;
  readonly #arrived: (handle: number, blocks: Int32Array) => void;
  /** The work of each job of a lane: a load of a step, or a part of a store. */
  readonly #jobs = new Map<number, { load: Copy; step: number } | { store: number }>();

  /**
   * @param kv the KV memory of this rank
   * @param arrived called with the blocks that a load has filled, for executors that want to know
   * @param makeLane makes a lane between two arenas; by default one that copies with threads
   */
  constructor(options: {
    kv: BlockArena;
    places: number;
    arrived?: (handle: number, blocks: Int32Array) => void;
    makeLane?: (queue: CompletionQueue, source: BlockArena, target: BlockArena) => Lane;
  }) {
    const { kv, places, arrived = () => {}, makeLane = hostLane } = options;
    this.#tier = BlockArena.allocate({ numBlocks: places, bytesPerBlock: kv.bytesPerBlock });
    this.#toDevice = makeLane(this.#queue, this.#tier, kv);
    this.#toHost = makeLane(this.#queue, kv, this.#tier);
    this.#arrived = arrived;
  }

  startLoads(orders: Orders | undefined, { step, notBefore }: WorkerStep): void {
    // Blocks to be stored are settled, so the lane can read them at once.
    for (const { job, blocks, places } of orders?.stores ?? [])
      this.#jobs.set(this.#toHost.submit(blocks, places), { store: job });
    for (const load of orders?.loads ?? [])
      this.#jobs.set(this.#toDevice.submit(load.places, load.blocks, notBefore), { load, step });
  }

  onStepSettled(step: number): void {
    this.#toDevice.settle(step);
  }

  getFinished(): WorkerOutput<Stored> | null {
    const finishedReceiving: TransferReport[] = [];
    const failedReceiving: TransferReport[] = [];
    const stored: { job: number; verdict: Verdict }[] = [];
    this.#queue.drain((number, verdict) => {
      const job = this.#jobs.get(number);
      this.#jobs.delete(number);
      if (job === undefined) return;
      if ('store' in job) {
        stored.push({ job: job.store, verdict });
        return;
      }
      const report = { handle: job.load.handle, step: job.step };
      finishedReceiving.push(report);
      if (verdict === Verdict.ok) this.#arrived(job.load.handle, job.load.blocks);
      else failedReceiving.push(report);
    });
    const output = { finishedReceiving, failedReceiving };
    return stored.length === 0 ? output : { ...output, metadata: stored };
  }

  /** From then on nothing that was begun touches the KV memory: for operators, before `Engine.fenceTransfers`. */
  fence(): void {
    this.#toDevice.fence();
    this.#toHost.fence();
  }

  shutdown(): void {
    for (const part of [this.#toDevice, this.#toHost, this.#queue, this.#tier]) part.dispose();
  }
}

function hostLane(queue: CompletionQueue, source: BlockArena, target: BlockArena): Lane {
  return new HostLane(queue, source, target);
}

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const options = { numBlocks: 9, blockSize: 16, maxNumSeqs: 1, maxModelLen: 128 };
  const executor = new ReferenceExecutor(options);
  const connector = new HostTier({ places: 64, numRanks: 1 });
  const arrived = (handle: number, blocks: Int32Array): void => executor.adopt(handle, blocks);
  const worker = new HostTierWorker({ kv: executor.kv, places: 64, arrived });
  const engine = new Engine({ ...options, executor, connector, workers: [worker] });
  engine.run();
  const prompt = (first: number): number[] => Array.from({ length: 100 }, (_, i) => first + i);
  // The pool holds one such prompt, so the second one takes the blocks of the first.
  for (const first of [1, 500, 1]) {
    const { numCachedTokens } = await engine.submit({ prompt: prompt(first), maxTokens: 4 }).result();
    print(`the prompt from ${first}: ${numCachedTokens} of 100 tokens were cached`);
  }
  await engine.shutdown({ drainMs: 10_000 });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
