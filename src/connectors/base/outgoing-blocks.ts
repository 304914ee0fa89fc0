import type { Anomalies } from '../../base/anomalies.js';
import type { BlockPins } from '../../scheduler/connector/connector.js';
import type { ConnectorPlan, HandOver, KvView } from '../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import { RankedJobs } from '../../transfer/ranked-jobs.js';
import { Verdict } from '../../transfer/verdict.js';
import type { BlockKeys } from './block-keys.js';
import { GroupScan } from './group-scan.js';

/** Blocks that the workers must store. Entry i of each list describes the same block. */
export interface Outgoing {
  /** The hash of each block's content and of all tokens before it. */
  readonly keys: readonly bigint[];
  /** Ids of the blocks. */
  readonly blocks: Int32Array;
  /** The place of each block, as `Reserve` returned it. */
  readonly places: Int32Array;
}

/** A job that was given to the workers of every rank. */
export interface OutgoingJob extends Outgoing {
  /** Number of the job, from 1. Numbers are never reused. */
  readonly job: number;
}

/** The answers of `Reserve` that are no place. */
export const NoPlace = {
  /** The content need not be stored. */
  unwanted: -1,
  /** There is no room now: ask again later. */
  later: -2,
} as const;

/**
 * Finds a place for the content of a block.
 * @param key the hash of the content
 * @returns the place, from 0; or one of `NoPlace`
 */
export type Reserve = (key: bigint) => number;

/**
 * Maximum number of plans after which the prompts of a plan are settled: the plans that can be in
 * flight, and the plan itself.
 */
const BUSY_PLANS = 4;

/** Options of an `OutgoingBlocks`. */
export interface OutgoingOptions {
  readonly view: KvView;
  readonly pins: BlockPins;
  /**
   * Names the blocks of a model with KV cache groups. Without it, only one group of full attention
   * is allowed.
   */
  readonly keys?: BlockKeys;
  /** The ranks that each store their part of every block. */
  readonly ranks: readonly number[];
  /** Maximum number of blocks that may be pinned at once. */
  readonly maxPinned: number;
  readonly anomalies: Anomalies;
  readonly reserve: Reserve;
  /**
   * Decoding requests are examined, and a job for their blocks is begun, only in every n-th plan.
   * Plans that compute prompts, plans shortly after them, and empty plans are always examined. A
   * larger value makes a decode step cheaper and begins a store some steps later. Default 1.
   */
  readonly everyPlans?: number;
}

/**
 * Decides which blocks of an engine are stored outside while their requests still run. A block is
 * stored when it is full and settled: all steps that wrote it were updated, and none failed. From
 * then on, the block is pinned until every rank has stored it. Keys and block ids come from one
 * list, so a key never names another block.
 *
 * All blocks that became settled since the last plan make one job. Content that is already being
 * stored is not stored again.
 *
 * Invariants: a block is pinned once for each job that contains it, including the job that is being
 * collected. `numPinned` is the number of these pins. `#coming` has the keys of exactly these
 * blocks.
 */
export class OutgoingBlocks {
  readonly #options: OutgoingOptions;
  readonly #jobs: RankedJobs<Outgoing>;
  /** Keys that are being collected or stored. */
  readonly #coming = new Set<bigint>();
  /** By slot: the number of computed tokens from which on the request has a new full block. */
  #nextAt = new Int32Array(64);
  #keys: bigint[] = [];
  #blocks: number[] = [];
  #places: number[] = [];
  #numPinned = 0;
  /**
   * Number of collected blocks that are already pinned. Only during a collection is it less than
   * all.
   */
  #numUnsent = 0;
  /** Block ids of one request, while that request is examined. */
  #row = new Int32Array(16);
  readonly #everyPlans: number;
  /** Number of plans since the last examined plan. */
  #numPassed = 0;
  /** Number of coming plans that are always examined. */
  #numBusy = 0;
  #isDue = true;
  #numSkipped = 0;
  #lastJob = 0;
  /** By lost block: the first job that may store the block's new content. */
  readonly #lost = new Map<number, number>();
  /** With KV cache groups, it examines requests in place of `#collect`. */
  readonly #scan: GroupScan | null;
  /** If nothing can be loaded, nothing need be stored. */
  readonly #isIdle: boolean;

  constructor(options: OutgoingOptions) {
    this.#options = options;
    const { view, pins, keys } = options;
    this.#isIdle = view.acceptsLoads === false;
    this.#scan =
      keys === undefined || view.layout === ''
        ? null
        : new GroupScan({
            ...{ view, pins, keys },
            offer: (key, block) => this.#offer(key, block),
            room: () => options.maxPinned - this.#numPinned - this.#keys.length,
          });
    this.#everyPlans = options.everyPlans ?? 1;
    this.#jobs = new RankedJobs(options.anomalies);
  }

  /** Number of blocks that are pinned now. */
  get numPinned(): number {
    return this.#numPinned + (this.#scan?.numAhead ?? 0);
  }

  /**
   * Number of blocks that were never stored, because there was no room before their requests ended.
   */
  get numSkipped(): number {
    return this.#numSkipped;
  }

  /** Number of jobs that some rank has not reported. */
  get numJobs(): number {
    return this.#jobs.size;
  }

  /** Notes a new request. Call it from `onNewRequest`. */
  track(request: ConnectorRequest): void {
    const { slot } = request;
    if (this.#scan !== null) {
      this.#scan.track(request);
      return;
    }
    while (slot >= this.#nextAt.length) {
      const larger = new Int32Array(2 * this.#nextAt.length);
      larger.set(this.#nextAt);
      this.#nextAt = larger;
    }
    this.#nextAt[slot] = this.#options.view.blockSize;
  }

  /** Collects the blocks of a plan's requests that became settled. Call it from `buildMetadata`. */
  observe(plan: ConnectorPlan): void {
    const { view } = this.#options;
    const { numRequests, numComputedTokens, slots, totalTokens } = plan;
    const nextAt = this.#nextAt;
    this.#scan?.release(plan.releasedHandles);
    const isQuiet = numRequests > 0 && totalTokens < numRequests + view.blockSize;
    if (!isQuiet) this.#numBusy = BUSY_PLANS;
    this.#isDue = --this.#numBusy >= 0 || ++this.#numPassed >= this.#everyPlans;
    if (!this.#isDue) return;
    this.#numPassed = 0;
    if (this.#isIdle) return;
    if (this.#scan !== null) {
      this.#scan.observe(plan);
      this.#pin();
      this.#scan.settle();
      return;
    }
    for (let i = 0; i < numRequests; i++) {
      // These tokens count as computed when all earlier steps are over, so no more of them can be
      // settled now.
      if (numComputedTokens[i] < nextAt[slots[i]]) continue;
      const request = plan.requests[i];
      this.#collect(request, view.extent(request).numSettledTokens, null);
    }
    this.#pin();
  }

  /** Collects the last blocks of a request. Call it from `requestFinished`. */
  finish(request: ConnectorRequest, { numSettledTokens, blocks }: HandOver): void {
    if (this.#isIdle) return;
    if (this.#scan !== null) {
      this.#scan.collect(request, numSettledTokens, blocks);
      this.#pin();
      this.#numSkipped += this.#scan.finish(request, numSettledTokens);
      return;
    }
    this.#collect(request, numSettledTokens, blocks[0]);
    this.#pin();
    const { blockSize } = this.#options.view;
    const looked = this.#nextAt[request.slot] / blockSize - 1;
    this.#numSkipped += Math.max(0, Math.floor(numSettledTokens / blockSize) - looked);
  }

  /**
   * Drains the blocks collected since the last call, as a job for the workers of every rank; null =
   * there are none.
   */
  drain(): OutgoingJob | null {
    if (this.#keys.length === 0 || !this.#isDue) return null;
    const blocks = Int32Array.from(this.#blocks);
    this.#numUnsent = 0;
    const outgoing = { keys: this.#keys, blocks, places: Int32Array.from(this.#places) };
    this.#keys = [];
    this.#blocks = [];
    this.#places = [];
    this.#lastJob = this.#jobs.begin(this.#options.ranks, outgoing);
    return { job: this.#lastJob, ...outgoing };
  }

  /**
   * The KV of these blocks is gone (`ConnectorOutput.lostBlocks`). Collected and begun stores of
   * them count as failed.
   */
  lose(blocks: readonly number[]): void {
    this.#scan?.lose(blocks);
    if (this.#coming.size === 0) return;
    for (const block of blocks) {
      const next = this.#lastJob + 1;
      this.#lost.set(block, this.#blocks.includes(block) ? next + 1 : next);
    }
  }

  /**
   * Takes a rank's report of a job. @returns the stored blocks and the verdict, if this was the
   * last rank; else null
   */
  report(job: number, rank: number, verdict: Verdict): (Outgoing & { readonly verdict: Verdict }) | null {
    const over = this.#jobs.report(job, rank, verdict);
    if (over === null) return null;
    const isLost = over.payload.blocks.some((block) => (this.#lost.get(block) ?? 0) > job);
    this.#drop(over.payload);
    return { ...over.payload, verdict: isLost ? Verdict.failed : over.verdict };
  }

  /** @param own the request's blocks; null = its current blocks */
  #collect(request: ConnectorRequest, numSettledTokens: number, own: Int32Array | null): void {
    const { view, reserve, maxPinned } = this.#options;
    const { slot } = request;
    const { blockSize } = view;
    const end = Math.floor(numSettledTokens / blockSize);
    const first = this.#nextAt[slot] / blockSize - 1;
    let index = first;
    // `own` has all blocks of the request; a fresh read returns only the blocks to examine. Most of
    // the time, all of them are known already.
    let blocks = own;
    const offset = own === null ? first : 0;
    const unpinned = this.#numPinned - this.#numUnsent;
    for (; index < end; index++) {
      const key = view.blockHash(request, index);
      if (this.#coming.has(key)) continue;
      const place = unpinned + this.#keys.length < maxPinned ? reserve(key) : NoPlace.later;
      if (place === NoPlace.later) break;
      if (place === NoPlace.unwanted) continue;
      this.#coming.add(key);
      this.#keys.push(key);
      blocks ??= this.#read(request, first, end - first);
      this.#blocks.push(blocks[index - offset]);
      this.#places.push(place);
    }
    this.#nextAt[slot] = (index + 1) * blockSize;
  }

  /** Collects a settled block if its content is wanted. @returns false if there is no room now */
  #offer(key: bigint, block: number): boolean {
    const { reserve, maxPinned } = this.#options;
    if (this.#coming.has(key)) return true;
    const isFull = this.#numPinned - this.#numUnsent + this.#keys.length >= maxPinned;
    const place = isFull ? NoPlace.later : reserve(key);
    if (place === NoPlace.later) return false;
    if (place === NoPlace.unwanted) return true;
    this.#coming.add(key);
    this.#keys.push(key);
    this.#blocks.push(block);
    this.#places.push(place);
    return true;
  }

  #read(request: ConnectorRequest, from: number, count: number): Int32Array {
    if (this.#row.length < count) this.#row = new Int32Array(2 * count);
    this.#options.view.readBlocks(request, from, this.#row);
    return this.#row;
  }

  /** Pins the blocks collected since the last call. */
  #pin(): void {
    const count = this.#blocks.length - this.#numUnsent;
    if (count === 0) return;
    this.#options.pins.pin(Int32Array.from(this.#blocks.slice(this.#numUnsent)));
    this.#numUnsent += count;
    this.#numPinned += count;
  }

  #drop({ keys, blocks }: Outgoing): void {
    for (const key of keys) this.#coming.delete(key);
    this.#options.pins.unpin(blocks);
    this.#numPinned -= blocks.length;
    if (this.#coming.size === 0) this.#lost.clear();
  }
}
