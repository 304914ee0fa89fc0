import type { BoundedSet } from '../../../base/collections/bounded-set.js';
import type { KvView } from '../../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../../scheduler/request/connector-request.js';
import { Verdict } from '../../../transfer/verdict.js';
import type { GroupLoad } from '../../base/group-hits.js';
import { type LoadsOptions, LoadsUnderWay } from '../../base/loads-under-way.js';
import type { LoadOrder } from './store-orders.js';

/** Options of a `Loading`. */
export interface LoadingParts extends Pick<LoadsOptions, 'ranks' | 'anomalies'> {
  readonly view: KvView;
  /** Hashes of blocks that the store has. */
  readonly known: BoundedSet<bigint>;
}

/**
 * The loads from the store. Blocks that did not arrive are no longer assumed to be in the store.
 */
export class Loading {
  readonly #known: BoundedSet<bigint>;
  readonly #loads: LoadsUnderWay<Pick<LoadOrder, 'hashes' | 'blocks'>>;
  /** Number of loads that were begun. */
  numBegun = 0;
  #numBlocks = 0;
  #numMissing = 0;

  constructor({ view, known, ...others }: LoadingParts) {
    this.#known = known;
    this.#loads = new LoadsUnderWay({ ...others, wake: (handle) => view.wake(handle) });
  }

  /** Number of loads that are not over. */
  get numLoads(): number {
    return this.#loads.numJobs;
  }

  /** Number of these loads whose requests have not ended. Their blocks enter the prefix cache. */
  get numAwaited(): number {
    return this.#loads.numAwaited;
  }

  /** Blocks of finished loads: blocks that arrived, and blocks that did not. */
  get counts(): { readonly loadedBlocks: number; readonly missingBlocks: number } {
    return { loadedBlocks: this.#numBlocks, missingBlocks: this.#numMissing };
  }

  /**
   * Whether another request loads this block. If so, the request is woken when that load is over.
   */
  awaits({ handle }: ConnectorRequest, hash: bigint): boolean {
    return this.#loads.awaits(handle, hash);
  }

  /** Begins a load for a request. */
  begin({ handle }: ConnectorRequest, { keys, blocks }: GroupLoad): void {
    this.numBegun++;
    this.#loads.begin(handle, keys, { hashes: keys, blocks });
  }

  /** Drains the loads that were begun since the last call. */
  drain(): readonly LoadOrder[] {
    return this.#loads.drain();
  }

  /** Takes a rank's report of a load: how many leading blocks arrived. */
  report(job: number, rank: number, numGood: number): void {
    const over = this.#loads.report(job, rank, Verdict.ok, numGood);
    if (over === null) return;
    this.#numBlocks += over.numGood;
    if (!over.isAwaited) return;
    this.#numMissing += over.keys.length - over.numGood;
    for (const hash of over.keys.slice(over.numGood)) this.#known.delete(hash);
  }

  /** A request has ended. It waits no more, and no request waits for it. */
  forget(handle: number): void {
    this.#loads.finish(handle);
  }
}
