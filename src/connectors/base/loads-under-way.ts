import type { Anomalies } from '../../base/anomalies.js';
import { RankedJobs } from '../../transfer/ranked-jobs.js';
import type { Verdict } from '../../transfer/verdict.js';

/** The fields of a load order that every connector sends to the workers of all ranks. */
export interface LoadJob {
  readonly job: number;
  /** The request that the blocks are loaded for. */
  readonly handle: number;
}

interface Load<Details> {
  readonly handle: number;
  readonly keys: readonly bigint[];
  readonly details: Details;
  /** Number of leading keys whose blocks arrived on every rank that has reported. */
  numGood: number;
  /** Requests that want some of the same blocks and wait for the end of this load. */
  readonly waiters: Set<number>;
}

/** A load that every rank has finished. */
export interface EndedLoad<Details> {
  readonly keys: readonly bigint[];
  readonly details: Details;
  /** Whether the load's request is still live. The end of a request can cut its load short. */
  readonly isAwaited: boolean;
  /** The worst verdict of all ranks. */
  readonly verdict: Verdict;
  /** Number of leading keys whose blocks arrived on every rank. */
  readonly numGood: number;
}

/** Options of a `LoadsUnderWay`. */
export interface LoadsOptions {
  /** The ranks that each load their part of every block. */
  readonly ranks: readonly number[];
  readonly anomalies: Anomalies;
  /** Makes the scheduler ask again about a request (`KvView.wake`). */
  readonly wake: (handle: number) => void;
}

/**
 * The loads under way and the requests that wait for them. A block is loaded for one request at a
 * time. Other requests that want the block wait for the end of that load, and are then asked about
 * again. They find the block in the local prefix cache, or load it themselves. If the request of a
 * load ends, no request waits for that load any more: its blocks will not enter the prefix cache.
 *
 * Invariants: `#awaited` has the loads that are not over and whose requests have not ended;
 * `#coming` has only keys of these loads.
 */
export class LoadsUnderWay<Details extends object> {
  readonly #options: LoadsOptions;
  readonly #jobs: RankedJobs<Load<Details>>;
  readonly #awaited = new Set<Load<Details>>();
  /** By key: the load that brings the key's block. */
  readonly #coming = new Map<bigint, Load<Details>>();
  #orders: (Details & LoadJob)[] = [];

  constructor(options: LoadsOptions) {
    this.#options = options;
    this.#jobs = new RankedJobs(options.anomalies);
  }

  /** Number of loads that some rank has not reported. */
  get numJobs(): number {
    return this.#jobs.size;
  }

  /** Number of these loads whose requests have not ended. */
  get numAwaited(): number {
    return this.#awaited.size;
  }

  /** Number of requests that wait for the load of another request. */
  get numWaiting(): number {
    let count = 0;
    for (const { waiters } of this.#awaited) count += waiters.size;
    return count;
  }

  /**
   * Whether a key is being loaded for some request. If so, a request that wants the key waits for
   * that load.
   */
  awaits(handle: number, key: bigint): boolean {
    const load = this.#coming.get(key);
    load?.waiters.add(handle);
    return load !== undefined;
  }

  /**
   * Begins the load of a request.
   * @param details further fields for the workers; kept
   */
  begin(handle: number, keys: readonly bigint[], details: Details): void {
    const load: Load<Details> = { handle, keys, details, numGood: keys.length, waiters: new Set() };
    const job = this.#jobs.begin(this.#options.ranks, load);
    this.#awaited.add(load);
    for (const key of keys) this.#coming.set(key, load);
    this.#orders.push({ job, handle, ...details });
  }

  /**
   * Drains the orders of the loads that were begun since the last call, for the workers of every
   * rank.
   */
  drain(): readonly (Details & LoadJob)[] {
    const orders = this.#orders;
    if (orders.length > 0) this.#orders = [];
    return orders;
  }

  /**
   * Takes a rank's report of a load.
   * @param numGood number of leading keys whose blocks arrived; default all
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

  /**
   * A request has ended. It waits no more, and no request waits for its loads any more. These loads
   * continue.
   */
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
