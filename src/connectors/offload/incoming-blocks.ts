import type { Anomalies } from '../../base/anomalies.js';
import { RankedJobs } from '../../transfer/ranked-jobs.js';
import { Verdict } from '../../transfer/verdict.js';
import type { LoadOrder } from './orders.js';
import { ABSENT, type TierIndex } from './tier-index.js';

/** A load under way. */
interface Load {
  readonly handle: number;
  readonly keys: readonly bigint[];
  readonly places: Int32Array;
  /** Requests that want some of the same blocks, and wait for the end of this load. */
  readonly waiters: Set<number>;
}

/** What `IncomingBlocks` is made of. */
export interface IncomingOptions {
  readonly index: TierIndex;
  /** The ranks that load their part of every block. */
  readonly ranks: readonly number[];
  readonly anomalies: Anomalies;
  /** Has the scheduler ask again about a request (`KvView.wake`). */
  readonly wake: (handle: number) => void;
}

/**
 * The loads from a tier. A block is loaded for one request at a time: whoever wants it meanwhile waits for the end of that
 * load, however it ends, and is asked again then. It finds the block in the local prefix cache, or else loads it itself.
 *
 * Invariants: a place is in use once for each load that reads it, until every rank has said that its part is over.
 * `#loading` has the keys of the loads whose requests have not ended, each key once.
 */
export class IncomingBlocks {
  readonly #options: IncomingOptions;
  readonly #jobs: RankedJobs<Load>;
  /** By key: the load that brings it. */
  readonly #loading = new Map<bigint, Load>();
  /** By handle: the load of a request that has not ended. */
  readonly #loads = new Map<number, Load>();
  #orders: LoadOrder[] = [];
  /** Loads that were begun, and blocks of these. */
  numBegun = 0;
  numBlocks = 0;
  /** Loads that failed on some rank. */
  numFailed = 0;

  constructor(options: IncomingOptions) {
    this.#options = options;
    this.#jobs = new RankedJobs(options.anomalies);
  }

  /** Loads that the ranks have not all reported. */
  get numJobs(): number {
    return this.#jobs.size;
  }

  /** Requests that wait for a load of others. */
  get numWaiting(): number {
    let count = 0;
    for (const { waiters } of new Set(this.#loading.values())) count += waiters.size;
    return count;
  }

  /** Whether a key is being loaded for some request. */
  isLoading(key: bigint): boolean {
    return this.#loading.has(key);
  }

  /** Makes a request wait for the load of a key. */
  await(key: bigint, handle: number): void {
    this.#loading.get(key)?.waiters.add(handle);
  }

  /**
   * Begins the load of a request. A key that the tier does not have any more makes the load fail on every rank.
   * @param blocks ids of the blocks to fill, one for each key; kept
   */
  begin(handle: number, keys: readonly bigint[], blocks: Int32Array): void {
    const { index, ranks } = this.#options;
    const places = Int32Array.from(keys, (key) => index.get(key));
    const load: Load = { handle, keys, places, waiters: new Set() };
    for (const place of places) if (place !== ABSENT) index.use(place);
    for (const key of keys) this.#loading.set(key, load);
    this.#loads.set(handle, load);
    this.#orders.push({ job: this.#jobs.begin(ranks, load), handle, blocks, places });
    this.numBegun++;
    this.numBlocks += keys.length;
  }

  /** The loads that were begun since the last call, for the workers of every rank. */
  take(): readonly LoadOrder[] {
    const orders = this.#orders;
    if (orders.length > 0) this.#orders = [];
    return orders;
  }

  /** Takes a rank's report of a load. @returns whether it was the last rank */
  report(job: number, rank: number, verdict: Verdict): boolean {
    const { index } = this.#options;
    const over = this.#jobs.report(job, rank, verdict);
    if (over === null) return false;
    const { keys, places } = over.payload;
    if (over.verdict !== Verdict.ok) this.numFailed++;
    // What could not be read is no more to be trusted. A load that was cancelled says nothing about its source.
    if (over.verdict === Verdict.failed) for (const key of keys) index.drop(key);
    // The last block first: then the beginnings of texts, which more requests share, stay longest.
    for (let i = places.length - 1; i >= 0; i--) if (places[i] !== ABSENT) index.release(places[i]);
    this.#leave(over.payload);
    return true;
  }

  /**
   * A request has ended. Its load goes on, and its places stay in use; but nobody waits for it any more, since its
   * blocks will not get into the prefix cache.
   */
  finish(handle: number): void {
    const load = this.#loads.get(handle);
    if (load !== undefined) this.#leave(load);
  }

  #leave(load: Load): void {
    for (const key of load.keys) if (this.#loading.get(key) === load) this.#loading.delete(key);
    if (this.#loads.get(load.handle) === load) this.#loads.delete(load.handle);
    for (const handle of load.waiters) this.#options.wake(handle);
    load.waiters.clear();
  }
}
