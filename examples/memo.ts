/**
 * The smallest honest connector: it keeps every full block in memory, as long as there is room, and gives it to whoever
 * begins alike. `docs/writing-connectors.md` walks through it; `examples/host-tier.ts` is the next one to read.
 *
 *     const size = 4096;
 *     new Engine({ ...options, executor, connector: new Memo(size), workers: [new MemoWorker(executor, size)] });
 */
import {
  BlockArena,
  type BlockLists,
  CompletionQueue,
  type Finished,
  HostLane,
  type KvView,
  type Lane,
  type Match,
  type Plan,
  type Request,
  type SchedulerConnector,
  type TransferReport,
  Verdict,
  type WorkerConnector,
  type WorkerOutput,
  type WorkerStep,
} from 'blockstep';

/** Blocks of the KV memory, and their places in the memo. */
interface Copy {
  readonly handle: number;
  readonly blocks: Int32Array;
  readonly places: Int32Array;
}

/** What the workers are to do with a plan. */
export interface Orders {
  readonly loads: readonly Copy[];
  readonly stores: readonly { readonly block: number; readonly place: number }[];
}

export class Memo implements SchedulerConnector<Orders> {
  readonly #places = new Map<bigint, number>();
  #loads: Copy[] = [];
  #view!: KvView;

  constructor(readonly size: number) {}

  bind(view: KvView): void {
    if (!view.hasHashes) throw new Error('a Memo finds blocks by their hashes: it needs enablePrefixCaching');
    this.#view = view;
  }

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    const first = numLocalTokens / this.#view.blockSize;
    const count = this.#placesFrom(request, first).length;
    return { numTokens: count * this.#view.blockSize, async: count > 0 };
  }

  updateStateAfterAlloc(request: Request, [blocks]: BlockLists, numExternalTokens: number): void {
    const count = numExternalTokens / this.#view.blockSize;
    if (count === 0) return;
    const places = this.#placesFrom(request, blocks.length - count).slice(0, count);
    this.#loads.push({
      handle: request.handle,
      blocks: blocks.slice(-count),
      places: Int32Array.from(places),
    });
  }

  buildMetadata(plan: Plan): Orders {
    const stores: Orders['stores'][number][] = [];
    for (let i = 0; i < plan.numRequests; i++) {
      const request = plan.requests[i];
      const end = Math.floor(this.#view.extent(request).numSettledTokens / this.#view.blockSize);
      for (let index = 0; index < end && this.#places.size < this.size; index++) {
        const key = this.#view.blockHash(request, index);
        if (this.#places.has(key)) continue;
        stores.push({ block: this.#view.blocks(request)[0][index], place: this.#places.size });
        this.#places.set(key, this.#places.size);
      }
    }
    const loads = this.#loads;
    this.#loads = [];
    return { loads, stores };
  }

  requestFinished(): Finished {
    return { delayFree: false };
  }

  resetCache(): boolean {
    this.#places.clear();
    return true;
  }

  /** Where its blocks lie, from one on and without a gap. The last token is always computed, to sample from. */
  #placesFrom(request: Request, first: number): number[] {
    const places: number[] = [];
    for (let i = first; (i + 1) * this.#view.blockSize < request.numTokens; i++) {
      const place = this.#places.get(this.#view.blockHash(request, i));
      if (place === undefined) break;
      places.push(place);
    }
    return places;
  }
}

/** What a worker is given: the KV memory of its rank. A `ReferenceExecutor` is one. */
type Memory = { kv: BlockArena; adopt?(handle: number, blocks: Int32Array): void };

export class MemoWorker implements WorkerConnector<Orders> {
  readonly #queue = new CompletionQueue();
  readonly #arena: BlockArena;
  readonly #lane: Lane;
  readonly #jobs = new Map<number, Copy & { readonly step: number }>();

  constructor(
    readonly memory: Memory,
    size: number,
    makeLane = (queue: CompletionQueue, from: BlockArena, to: BlockArena): Lane =>
      new HostLane(queue, from, to),
  ) {
    this.#arena = BlockArena.allocate({ numBlocks: size, bytesPerBlock: memory.kv.bytesPerBlock });
    this.#lane = makeLane(this.#queue, this.#arena, memory.kv);
  }

  startLoads(orders: Orders | undefined, { step, notBefore }: WorkerStep): void {
    // At once, so nothing has to protect the blocks: only this step, or a later one, can change them.
    for (const { block, place } of orders?.stores ?? [])
      this.#arena.writeBlock(place, this.memory.kv.readBlock(block));
    for (const load of orders?.loads ?? [])
      this.#jobs.set(this.#lane.submit(load.places, load.blocks, notBefore), { ...load, step });
  }

  onStepSettled(step: number): void {
    this.#lane.settle(step);
  }

  getFinished(): WorkerOutput {
    const finishedReceiving: TransferReport[] = [];
    const failedReceiving: TransferReport[] = [];
    this.#queue.drain((number, verdict) => {
      const { handle, step, blocks } = this.#jobs.get(number) as Copy & { readonly step: number };
      this.#jobs.delete(number);
      finishedReceiving.push({ handle, step });
      if (verdict === Verdict.ok) this.memory.adopt?.(handle, blocks);
      else failedReceiving.push({ handle, step });
    });
    return { finishedReceiving, failedReceiving };
  }

  shutdown(): void {
    for (const part of [this.#lane, this.#queue, this.#arena]) part.dispose();
  }
}
