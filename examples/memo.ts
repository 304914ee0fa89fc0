/**
 * The smallest correct connector: it keeps full blocks in memory, and gives them to requests that
 * begin alike. It copies them away at once, so nothing has to protect a block.
 * `docs/writing-connectors.md` walks through it.
 *
 *     new Engine({ ...options, executor, connector: new Memo(4096), workers: [new MemoWorker(executor, 4096)] });
 *
 *     npx tsx examples/memo.ts
 *
 * prints how much of a prompt comes back from the memo.
 */
import { pathToFileURL } from 'node:url';
import { Engine, ReferenceExecutor } from 'blockstep';
import type {
  BlockLists,
  ConnectorPlan,
  ConnectorRequest,
  Finished,
  KvView,
  Match,
  SchedulerConnector,
  TransferReport,
  WorkerConnector,
  WorkerOutput,
  WorkerStep,
} from 'blockstep/connector';
import { BlockArena, CompletionQueue, HostLane, type Lane, Verdict } from 'blockstep/transfer';

/** The copies that the workers make for a plan: of blocks to places of the memo, and from there. */
interface Orders {
  readonly stores: { readonly block: number; readonly place: number }[];
  readonly loads: { readonly handle: number; readonly blocks: Int32Array; readonly places: Int32Array }[];
}

/** Scheduler side: knows which content lies in which of the `size` places. */
export class Memo implements SchedulerConnector<Orders> {
  readonly #places = new Map<bigint, number>();
  #orders: Orders = { stores: [], loads: [] };
  #view!: KvView;

  constructor(readonly size: number) {}

  bind(view: KvView): void {
    if (!view.hasHashes) throw new Error('a Memo finds blocks by their hashes: it needs enablePrefixCaching');
    if (view.layout !== '') throw new Error('a Memo keeps the blocks of one group: it cannot have kvGroups');
    this.#view = view;
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numLocalTokens: number): Match {
    const { blockSize } = this.#view;
    let end = numLocalTokens / blockSize;
    // The last token is always computed, to sample from.
    while ((end + 1) * blockSize < request.numTokens && this.#placeOf(request, end) !== undefined) end++;
    return { numTokens: end * blockSize - numLocalTokens, async: end * blockSize > numLocalTokens };
  }

  updateStateAfterAlloc(request: ConnectorRequest, [list]: BlockLists, numTokens: number): void {
    const count = numTokens / this.#view.blockSize;
    if (count === 0) return;
    // The blocks to load are the last of its blocks. The list is borrowed, so this is a copy.
    const blocks = list.slice(-count);
    const places = blocks.map((_, i) => this.#placeOf(request, list.length - count + i) as number);
    this.#orders.loads.push({ handle: request.handle, blocks, places });
  }

  buildMetadata(plan: ConnectorPlan): Orders {
    const orders = this.#orders;
    this.#orders = { stores: [], loads: [] };
    for (const request of plan.requests.slice(0, plan.numRequests)) {
      const end = Math.floor(this.#view.extent(request).numSettledTokens / this.#view.blockSize);
      for (let i = 0; i < end && this.#places.size < this.size; i++) {
        if (this.#placeOf(request, i) !== undefined) continue;
        orders.stores.push({ block: this.#view.blocks(request)[0][i], place: this.#places.size });
        this.#places.set(this.#view.blockHash(request, i), this.#places.size);
      }
    }
    return orders;
  }

  requestFinished(): Finished {
    return { delayFree: false };
  }

  resetCache(): boolean {
    this.#places.clear();
    return true;
  }

  #placeOf(request: ConnectorRequest, index: number): number | undefined {
    return this.#places.get(this.#view.blockHash(request, index));
  }
}

/** Worker side of one rank: has the bytes. It is given the KV memory of the rank, for instance a `ReferenceExecutor`. */
export class MemoWorker implements WorkerConnector<Orders> {
  readonly #queue = new CompletionQueue();
  readonly #memo: BlockArena;
  readonly #lane: Lane;
  readonly #jobs = new Map<number, { handle: number; blocks: Int32Array; step: number }>();

  constructor(
    readonly memory: { kv: BlockArena; adopt?(handle: number, blocks: Int32Array): void },
    size: number,
    makeLane = (...parts: ConstructorParameters<typeof HostLane>): Lane => new HostLane(...parts),
  ) {
    this.#memo = BlockArena.allocate({ numBlocks: size, bytesPerBlock: memory.kv.bytesPerBlock });
    this.#lane = makeLane(this.#queue, this.#memo, memory.kv);
  }

  startLoads(orders: Orders | undefined, { step, notBefore }: WorkerStep): void {
    // At once, so nothing has to protect the blocks: only this step, or a later one, can change them.
    for (const { block, place } of orders?.stores ?? [])
      this.#memo.writeBlock(place, this.memory.kv.readBlock(block));
    for (const { handle, blocks, places } of orders?.loads ?? [])
      this.#jobs.set(this.#lane.submit(places, blocks, notBefore), { handle, blocks, step });
  }

  onStepSettled(step: number): void {
    this.#lane.settle(step);
  }

  getFinished(): WorkerOutput {
    const finishedReceiving: TransferReport[] = [];
    const failedReceiving: TransferReport[] = [];
    this.#queue.drain((job, verdict) => {
      const { handle, blocks, step } = this.#jobs.get(job) as {
        handle: number;
        blocks: Int32Array;
        step: number;
      };
      this.#jobs.delete(job);
      finishedReceiving.push({ handle, step });
      if (verdict === Verdict.ok) this.memory.adopt?.(handle, blocks);
      else failedReceiving.push({ handle, step });
    });
    return { finishedReceiving, failedReceiving };
  }

  /** From then on nothing that was begun touches the KV memory: for operators, before `Engine.fenceTransfers`. */
  fence(): void {
    this.#lane.fence();
  }

  shutdown(): void {
    for (const part of [this.#lane, this.#queue, this.#memo]) part.dispose();
  }
}

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const options = { numBlocks: 9, blockSize: 16, maxNumSeqs: 1, maxModelLen: 128 };
  const executor = new ReferenceExecutor(options);
  const connector = new Memo(64);
  const worker = new MemoWorker(executor, 64);
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
