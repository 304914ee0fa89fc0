import type { Anomalies } from '../../base/anomalies.js';
import type { BlockPins } from '../../scheduler/connector/connector.js';
import type { HandOver, KvView } from '../../scheduler/connector/kv-view.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { Request } from '../../scheduler/request/request.js';
import { RankedJobs } from '../../transfer/ranked-jobs.js';
import { Verdict } from '../../transfer/verdict.js';
import type { BlockKeys } from './block-keys.js';
import { GroupScan } from './group-scan.js';

/** Blocks that the workers are to store. Entry i of each list is about the same block. */
export interface Outgoing {
  /** The hash of each block's content, and of all tokens before it. */
  readonly keys: readonly bigint[];
  /** Ids of the blocks. */
  readonly blocks: Int32Array;
  /** Where each block goes, as `Reserve` said. */
  readonly places: Int32Array;
}

/** A job that was given to the workers of every rank. */
export interface OutgoingJob extends Outgoing {
  /** Number of the job, from 1; no number comes twice. */
  readonly job: number;
}

/** What `Reserve` answers in place of a place. */
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

/** A plan's prompts are settled so many plans later at most: those that can be in flight, and itself. */
const BUSY_PLANS = 4;

/** What `OutgoingBlocks` is made of. */
export interface OutgoingOptions {
  readonly view: KvView;
  readonly pins: BlockPins;
  /** Names the blocks of a model with KV cache groups. Without it there may be one group of full attention alone. */
  readonly keys?: BlockKeys;
  /** The ranks that store their part of every block. */
  readonly ranks: readonly number[];
  /** Most blocks that may be pinned at once. */
  readonly maxPinned: number;
  readonly anomalies: Anomalies;
  readonly reserve: Reserve;
  /**
   * Looks at requests that decode, and begins a job for them, only in every plan of so many. Every plan is looked at that
   * computes prompts, stands shortly behind one that does, or is empty. Looking less often costs a decode step less, and
   * begins a store some steps later. Default 1.
   */
  readonly everyPlans?: number;
}

/**
 * Decides which blocks of an engine are stored outside, while their requests still run. A block is stored once it is
 * full and settled: every step that wrote it was updated, and none of them failed. From then on until every rank has
 * stored it the block is pinned. Keys and block ids are taken from one list, so a key never stands for another block.
 *
 * All blocks that became settled since the last plan make one job. Contents that are on their way are not stored again.
 *
 * Invariants: a block is pinned once for each job that it is in, and for the job that is being collected; `numPinned` is
 * the number of these pins; `#coming` has the keys of exactly these blocks.
 */
export class OutgoingBlocks {
  readonly #options: OutgoingOptions;
  readonly #jobs: RankedJobs<Outgoing>;
  /** Keys that are being collected or stored. */
  readonly #coming = new Set<bigint>();
  /** By slot: computed tokens from which on the request has another full block to look at. */
  #nextAt = new Int32Array(64);
  #keys: bigint[] = [];
  #blocks: number[] = [];
  #places: number[] = [];
  #numPinned = 0;
  /** Collected blocks that are pinned already: all, but while more are being collected. */
  #numUnsent = 0;
  /** Block ids of one request, while they are looked at. */
  #row = new Int32Array(16);
  readonly #everyPlans: number;
  /** Plans that were not looked at since one was. */
  #numPassed = 0;
  /** Plans that are looked at, whatever they compute. */
  #numBusy = 0;
  #isDue = true;
  #numSkipped = 0;
  #lastJob = 0;
  /** Blocks that were lost: the first job that may store what is in the block now. */
  readonly #lost = new Map<number, number>();
  /** With KV cache groups: it looks at requests in place of `#collect`. */
  readonly #scan: GroupScan | null;
  /** Where nothing can be loaded, nothing need be stored. */
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

  /** Blocks that are pinned now. */
  get numPinned(): number {
    return this.#numPinned + (this.#scan?.numAhead ?? 0);
  }

  /** Blocks that were never stored, since there was no room for them before their requests ended. */
  get numSkipped(): number {
    return this.#numSkipped;
  }

  /** Jobs that the ranks have not all reported. */
  get numJobs(): number {
    return this.#jobs.size;
  }

  /** Notes a new request. Call it from `onNewRequest`. */
  track(request: Request): void {
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

  /** Collects the blocks of a plan's requests that have become settled. Call it from `buildMetadata`. */
  observe(plan: Plan): void {
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
      // These tokens are computed when every step before this one is over, so no more of them can be settled now.
      if (numComputedTokens[i] < nextAt[slots[i]]) continue;
      const request = plan.requests[i];
      this.#collect(request, view.extent(request).numSettledTokens, null);
    }
    this.#pin();
  }

  /** Collects the last blocks of a request. Call it from `requestFinished`. */
  finish(request: Request, { numSettledTokens, blocks }: HandOver): void {
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

  /** What was collected since the last call, as a job for the workers of every rank; null = nothing. */
  take(): OutgoingJob | null {
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
   * Takes that the KV of blocks is gone (`ConnectorOutput.lostBlocks`). Whatever was collected or begun of them counts as
   * failed.
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
   * Takes a rank's report of a job. @returns what was stored, and how it went, if this was the last rank; else null
   */
  report(job: number, rank: number, verdict: Verdict): (Outgoing & { readonly verdict: Verdict }) | null {
    const over = this.#jobs.report(job, rank, verdict);
    if (over === null) return null;
    const isLost = over.payload.blocks.some((block) => (this.#lost.get(block) ?? 0) > job);
    this.#drop(over.payload);
    return { ...over.payload, verdict: isLost ? Verdict.failed : over.verdict };
  }

  /** @param own the request's blocks; null = those that it has now */
  #collect(request: Request, numSettledTokens: number, own: Int32Array | null): void {
    const { view, reserve, maxPinned } = this.#options;
    const { slot } = request;
    const { blockSize } = view;
    const end = Math.floor(numSettledTokens / blockSize);
    const first = this.#nextAt[slot] / blockSize - 1;
    let index = first;
    // `own` has all blocks of the request, what is read only those to be looked at. Most often all are known already.
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

  /** Collects a settled block, if its content is wanted. @returns false if there is no room now */
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

  #read(request: Request, from: number, count: number): Int32Array {
    if (this.#row.length < count) this.#row = new Int32Array(2 * count);
    this.#options.view.readBlocks(request, from, this.#row);
    return this.#row;
  }

  /** Pins what was collected since the last call. */
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
