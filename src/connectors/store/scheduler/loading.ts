import type { Anomalies } from '../../../base/anomalies.js';
import type { KvView } from '../../../scheduler/connector/kv-view.js';
import type { Request } from '../../../scheduler/request/request.js';
import { RankedJobs } from '../../../transfer/ranked-jobs.js';
import { Verdict } from '../../../transfer/verdict.js';
import type { BoundedSet } from '../../base/bounded-set.js';
import type { LoadOrder } from './store-orders.js';

interface Load {
  readonly hashes: readonly bigint[];
  /** Blocks from the first one on that came, on every rank that has reported. */
  numGood: number;
}

/**
 * The loads that are under way, and the requests that wait for them: a request that wants the very block that another one
 * loads waits for that load, instead of loading it once more.
 *
 * Invariant: `#coming` has each hash of a load that is not over, with that load's job.
 */
export class Loading {
  readonly #view: KvView;
  readonly #ranks: readonly number[];
  readonly #known: BoundedSet<bigint>;
  readonly #jobs: RankedJobs<Load>;
  readonly #coming = new Map<bigint, number>();
  /** Handles of the requests that wait for a job. */
  readonly #waiting = new Map<number, Set<number>>();
  #orders: LoadOrder[] = [];
  #numBlocks = 0;
  #numMissing = 0;

  constructor(view: KvView, ranks: readonly number[], known: BoundedSet<bigint>, anomalies: Anomalies) {
    this.#view = view;
    this.#ranks = ranks;
    this.#known = known;
    this.#jobs = new RankedJobs(anomalies);
  }

  /** Loads that are not over. */
  get numLoads(): number {
    return this.#jobs.size;
  }

  /** Blocks of loads that are over: those that came, and those that did not come after all. */
  get counts(): { readonly loadedBlocks: number; readonly missingBlocks: number } {
    return { loadedBlocks: this.#numBlocks, missingBlocks: this.#numMissing };
  }

  /** Whether another request loads this block. Then the request is woken when that load is over. */
  awaits({ handle }: Request, hash: bigint): boolean {
    const job = this.#coming.get(hash);
    if (job === undefined) return false;
    const waiting = this.#waiting.get(job);
    if (waiting === undefined) this.#waiting.set(job, new Set([handle]));
    else waiting.add(handle);
    return true;
  }

  /** Begins a load of the last `count` of a request's blocks; the list is borrowed. */
  begin(request: Request, blocks: Int32Array, count: number): void {
    const first = blocks.length - count;
    const hashes = Array.from({ length: count }, (_, i) => this.#view.blockHash(request, first + i));
    const job = this.#jobs.begin(this.#ranks, { hashes, numGood: count });
    for (const hash of hashes) this.#coming.set(hash, job);
    this.#orders.push({ job, handle: request.handle, hashes, blocks: blocks.slice(first) });
  }

  /** The loads that were begun since the last call. */
  take(): LoadOrder[] {
    const orders = this.#orders;
    if (orders.length > 0) this.#orders = [];
    return orders;
  }

  /** Takes a rank's report of a load. */
  report(job: number, rank: number, numGood: number): void {
    const under = this.#jobs.get(job);
    if (under !== null) under.payload.numGood = Math.min(under.payload.numGood, numGood);
    const over = this.#jobs.report(job, rank, Verdict.ok);
    if (over === null) return;
    const { hashes, numGood: good } = over.payload;
    this.#numBlocks += good;
    this.#numMissing += hashes.length - good;
    for (const [i, hash] of hashes.entries()) {
      if (this.#coming.get(hash) === job) this.#coming.delete(hash);
      if (i >= good) this.#known.delete(hash);
    }
    for (const handle of this.#waiting.get(job) ?? []) this.#view.wake(handle);
    this.#waiting.delete(job);
  }

  /** A request has ended, and waits no more. */
  forget(handle: number): void {
    for (const waiting of this.#waiting.values()) waiting.delete(handle);
  }
}
