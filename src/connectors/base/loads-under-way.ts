import type { Anomalies } from '../../base/anomalies.js';
import { RankedJobs } from '../../transfer/ranked-jobs.js';
import type { Verdict } from '../../transfer/verdict.js';

/** What the workers of every rank are told of a load, besides what the connector adds. */
export interface LoadJob {
  readonly job: number;
  /** The request that the blocks are loaded for. */
  readonly handle: number;
}

interface Load<Details> {
  readonly handle: number;
  readonly keys: readonly bigint[];
  readonly details: Details;
  /** Leading keys whose blocks came, on every rank that has reported. */
  numGood: number;
  /** Requests that want some of the same blocks, and wait for the end of this load. */
  readonly waiters: Set<number>;
}

/** A load of which every rank has said that its part is over. */
export interface EndedLoad<Details> {
  readonly keys: readonly bigint[];
  readonly details: Details;
  /** Whether its request has not ended. One that has may have cut the load short. */
  readonly isAwaited: boolean;
  /** The worst of all ranks. */
  readonly verdict: Verdict;
  /** Leading keys whose blocks came, on every rank. */
  readonly numGood: number;
}

/** What `LoadsUnderWay` is made of. */
export interface LoadsOptions {
  /** The ranks that load their part of every block. */
  readonly ranks: readonly number[];
  readonly anomalies: Anomalies;
  /** Has the scheduler ask again about a request (`KvView.wake`). */
  readonly wake: (handle: number) => void;
}

/**
 * The loads that are under way, and who waits for them. A block is loaded for one request at a time: whoever wants it
 * meanwhile waits for the end of that load, however it ends, and is asked again then. It finds the block in the local prefix
 * cache, or else loads it itself. When the request of a load ends, nobody waits for that load any more: its blocks will not
 * get into the prefix cache.
 *
 * Invariants: `#awaited` has the loads that are not over and whose requests have not ended; `#coming` has keys of these alone.
 */
export class LoadsUnderWay<Details extends object> {
  readonly #options: LoadsOptions;
  readonly #jobs: RankedJobs<Load<Details>>;
  readonly #awaited = new Set<Load<Details>>();
  /** By key: the load that brings it. */
  readonly #coming = new Map<bigint, Load<Details>>();
  #orders: (Details & LoadJob)[] = [];

  constructor(options: LoadsOptions) {
    this.#options = options;
    this.#jobs = new RankedJobs(options.anomalies);
  }

  /** Loads that the ranks have not all reported. */
  get numJobs(): number {
    return this.#jobs.size;
  }

  /** Those of them whose requests have not ended. */
  get numAwaited(): number {
    return this.#awaited.size;
  }

  /** Requests that wait for a load of others. */
  get numWaiting(): number {
    let count = 0;
    for (const { waiters } of this.#awaited) count += waiters.size;
    return count;
  }

  /** Whether a key is being loaded for some request. Then a request that wants it waits for that load. */
  awaits(handle: number, key: bigint): boolean {
    const load = this.#coming.get(key);
    load?.waiters.add(handle);
    return load !== undefined;
  }

  /**
   * Begins the load of a request.
   * @param details what else the workers are told; kept
   */
  begin(handle: number, keys: readonly bigint[], details: Details): void {
    const load: Load<Details> = { handle, keys, details, numGood: keys.length, waiters: new Set() };
    const job = this.#jobs.begin(this.#options.ranks, load);
    this.#awaited.add(load);
    for (const key of keys) this.#coming.set(key, load);
    this.#orders.push({ job, handle, ...details });
  }

  /** The loads that were begun since the last call, for the workers of every rank. */
  take(): readonly (Details & LoadJob)[] {
    const orders = this.#orders;
    if (orders.length > 0) this.#orders = [];
    return orders;
  }

  /**
   * Takes a rank's report of a load.
   * @param numGood leading keys whose blocks came; default all
   * @returns the load if this was the last rank; else null
   */
  report(job: number, rank: number, verdict: Verdict, numGood?: number): EndedLoad<Details> | null {
    const load = this.#jobs.get(job)?.payload;
    if (load !== undefined && numGood !== undefined) load.numGood = Math.min(load.numGood, numGood);
    const over = this.#jobs.report(job, rank, verdict);
    if (over === null) return null;
    const isAwaited = this.#awaited.has(over.payload);
    this.#leave(over.payload);
    const { keys, details, numGood: good } = over.payload;
    return { keys, details, isAwaited, verdict: over.verdict, numGood: good };
  }

  /** A request has ended: it waits no more, and nobody waits for its loads any more. These go on. */
  finish(handle: number): void {
    for (const load of this.#awaited) {
      load.waiters.delete(handle);
      if (load.handle === handle) this.#leave(load);
    }
  }

  #leave(load: Load<Details>): void {
    this.#awaited.delete(load);
    for (const key of load.keys) if (this.#coming.get(key) === load) this.#coming.delete(key);
    for (const handle of load.waiters) this.#options.wake(handle);
    load.waiters.clear();
  }
}
