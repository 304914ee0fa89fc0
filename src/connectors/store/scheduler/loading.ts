import type { BoundedSet } from '../../../base/collections/bounded-set.js';
import type { KvView } from '../../../scheduler/connector/kv-view.js';
import type { Request } from '../../../scheduler/request/request.js';
import { Verdict } from '../../../transfer/verdict.js';
import { type LoadsOptions, LoadsUnderWay } from '../../base/loads-under-way.js';
import type { LoadOrder } from './store-orders.js';

/** What `Loading` is made of. */
export interface LoadingParts extends Pick<LoadsOptions, 'ranks' | 'anomalies'> {
  readonly view: KvView;
  /** Hashes of blocks that the store has. */
  readonly known: BoundedSet<bigint>;
}

/** The loads from the store. What did not come is not known any more to be there. */
export class Loading {
  readonly #view: KvView;
  readonly #known: BoundedSet<bigint>;
  readonly #loads: LoadsUnderWay<Pick<LoadOrder, 'hashes' | 'blocks'>>;
  #numBlocks = 0;
  #numMissing = 0;

  constructor({ view, known, ...others }: LoadingParts) {
    this.#view = view;
    this.#known = known;
    this.#loads = new LoadsUnderWay({ ...others, wake: (handle) => view.wake(handle) });
  }

  /** Loads that are not over. */
  get numLoads(): number {
    return this.#loads.numJobs;
  }

  /** Those of them whose requests have not ended: what they bring gets into the prefix cache. */
  get numAwaited(): number {
    return this.#loads.numAwaited;
  }

  /** Blocks of loads that are over: those that came, and those that did not come after all. */
  get counts(): { readonly loadedBlocks: number; readonly missingBlocks: number } {
    return { loadedBlocks: this.#numBlocks, missingBlocks: this.#numMissing };
  }

  /** Whether another request loads this block. Then the request is woken when that load is over. */
  awaits({ handle }: Request, hash: bigint): boolean {
    return this.#loads.awaits(handle, hash);
  }

  /** Begins a load of the last `count` of a request's blocks; the list is borrowed. */
  begin(request: Request, blocks: Int32Array, count: number): void {
    const first = blocks.length - count;
    const hashes = Array.from({ length: count }, (_, i) => this.#view.blockHash(request, first + i));
    this.#loads.begin(request.handle, hashes, { hashes, blocks: blocks.slice(first) });
  }

  /** The loads that were begun since the last call. */
  take(): readonly LoadOrder[] {
    return this.#loads.take();
  }

  /** Takes a rank's report of a load: how many of its first blocks came. */
  report(job: number, rank: number, numGood: number): void {
    const over = this.#loads.report(job, rank, Verdict.ok, numGood);
    if (over === null) return;
    this.#numBlocks += over.numGood;
    this.#numMissing += over.keys.length - over.numGood;
    for (const hash of over.keys.slice(over.numGood)) this.#known.delete(hash);
  }

  /** A request has ended: it waits no more, and nobody waits for it. */
  forget(handle: number): void {
    this.#loads.finish(handle);
  }
}
