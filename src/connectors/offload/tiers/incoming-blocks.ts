import { Verdict } from '../../../transfer/verdict.js';
import { type LoadsOptions, LoadsUnderWay } from '../../base/loads-under-way.js';
import type { LoadOrder } from './orders.js';
import { ABSENT, type TierIndex } from './tier-index.js';

/** Options of an `IncomingBlocks`. */
export interface IncomingOptions extends LoadsOptions {
  readonly index: TierIndex;
}

/**
 * The loads from a tier.
 *
 * Invariant: a place is in use once for each load that reads it, until every rank has reported its
 * part as over.
 */
export class IncomingBlocks {
  readonly #index: TierIndex;
  readonly #loads: LoadsUnderWay<Pick<LoadOrder, 'blocks' | 'places'>>;
  /** Number of loads that were begun, and of their blocks. */
  numBegun = 0;
  numBlocks = 0;
  /** Number of loads that failed on some rank. */
  numFailed = 0;

  constructor({ index, ...options }: IncomingOptions) {
    this.#index = index;
    this.#loads = new LoadsUnderWay(options);
  }

  /** Number of loads that some rank has not reported. */
  get numJobs(): number {
    return this.#loads.numJobs;
  }

  /** Number of requests that wait for the load of another request. */
  get numWaiting(): number {
    return this.#loads.numWaiting;
  }

  /**
   * Whether a key is being loaded for some request. If so, a request that wants the key waits for
   * that load.
   */
  awaits(handle: number, key: bigint): boolean {
    return this.#loads.awaits(handle, key);
  }

  /**
   * Begins the load of a request. If the tier no longer has a key, the load fails on every rank.
   * @param blocks ids of the blocks to fill, one for each key; kept
   */
  begin(handle: number, keys: readonly bigint[], blocks: Int32Array): void {
    const places = Int32Array.from(keys, (key) => this.#index.get(key));
    for (const place of places) if (place !== ABSENT) this.#index.use(place);
    this.#loads.begin(handle, keys, { blocks, places });
    this.numBegun++;
    this.numBlocks += keys.length;
  }

  /** Drains the loads that were begun since the last call, for the workers of every rank. */
  drain(): readonly LoadOrder[] {
    return this.#loads.drain();
  }

  /** Takes a rank's report of a load. @returns whether it was the last rank */
  report(job: number, rank: number, verdict: Verdict): boolean {
    const over = this.#loads.report(job, rank, verdict);
    if (over === null) return false;
    const { places } = over.details;
    if (over.verdict !== Verdict.ok) this.numFailed++;
    // Content that could not be read is no longer trusted. A cancelled load says nothing about its
    // source.
    if (over.verdict === Verdict.failed) for (const key of over.keys) this.#index.drop(key);
    // The last block goes first, so that the beginnings of texts, which more requests share, are
    // evicted last.
    for (let i = places.length - 1; i >= 0; i--) if (places[i] !== ABSENT) this.#index.release(places[i]);
    return true;
  }

  /** A request has ended. Its load continues, and the places stay in use. */
  finish(handle: number): void {
    this.#loads.finish(handle);
  }
}
