import { Verdict } from '../../../transfer/verdict.js';
import { type LoadsOptions, LoadsUnderWay } from '../../base/loads-under-way.js';
import type { LoadOrder } from './orders.js';
import { ABSENT, type TierIndex } from './tier-index.js';

/** What `IncomingBlocks` is made of. */
export interface IncomingOptions extends LoadsOptions {
  readonly index: TierIndex;
}

/**
 * The loads from a tier.
 *
 * Invariant: a place is in use once for each load that reads it, until every rank has said that its part is over.
 */
export class IncomingBlocks {
  readonly #index: TierIndex;
  readonly #loads: LoadsUnderWay<Pick<LoadOrder, 'blocks' | 'places'>>;
  /** Loads that were begun, and blocks of these. */
  numBegun = 0;
  numBlocks = 0;
  /** Loads that failed on some rank. */
  numFailed = 0;

  constructor({ index, ...options }: IncomingOptions) {
    this.#index = index;
    this.#loads = new LoadsUnderWay(options);
  }

  /** Loads that the ranks have not all reported. */
  get numJobs(): number {
    return this.#loads.numJobs;
  }

  /** Requests that wait for a load of others. */
  get numWaiting(): number {
    return this.#loads.numWaiting;
  }

  /** Whether a key is being loaded for some request. Then a request that wants it waits for that load. */
  awaits(handle: number, key: bigint): boolean {
    return this.#loads.awaits(handle, key);
  }

  /**
   * Begins the load of a request. A key that the tier does not have any more makes the load fail on every rank.
   * @param blocks ids of the blocks to fill, one for each key; kept
   */
  begin(handle: number, keys: readonly bigint[], blocks: Int32Array): void {
    const places = Int32Array.from(keys, (key) => this.#index.get(key));
    for (const place of places) if (place !== ABSENT) this.#index.use(place);
    this.#loads.begin(handle, keys, { blocks, places });
    this.numBegun++;
    this.numBlocks += keys.length;
  }

  /** The loads that were begun since the last call, for the workers of every rank. */
  take(): readonly LoadOrder[] {
    return this.#loads.take();
  }

  /** Takes a rank's report of a load. @returns whether it was the last rank */
  report(job: number, rank: number, verdict: Verdict): boolean {
    const over = this.#loads.report(job, rank, verdict);
    if (over === null) return false;
    const { places } = over.details;
    if (over.verdict !== Verdict.ok) this.numFailed++;
    // What could not be read is no more to be trusted. A load that was cancelled says nothing about its source.
    if (over.verdict === Verdict.failed) for (const key of over.keys) this.#index.drop(key);
    // The last block first: then the beginnings of texts, which more requests share, stay longest.
    for (let i = places.length - 1; i >= 0; i--) if (places[i] !== ABSENT) this.#index.release(places[i]);
    return true;
  }

  /** A request has ended. Its load goes on, and its places stay in use. */
  finish(handle: number): void {
    this.#loads.finish(handle);
  }
}
