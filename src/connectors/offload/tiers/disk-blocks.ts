import type { Anomalies } from '../../../base/anomalies.js';
import { RankedJobs } from '../../../transfer/ranked-jobs.js';
import { Verdict } from '../../../transfer/verdict.js';
import type { DiskOrders, DiskReport, KeyedOrder } from './orders.js';
import type { DiskStats } from './stats.js';
import type { TierIndex } from './tier-index.js';

/** What a request wants of the disk. */
export interface Wish {
  /** Keys that the host tier lacks, in the order of the request's tokens; at least one. */
  readonly keys: readonly bigint[];
  /**
   * Which of the keys are to be read, in the order of use.
   * @param found whether the disk has a key
   * @param room most blocks that can be read
   */
  choose(found: (key: bigint) => boolean, room: number): readonly bigint[];
}

/** What a request waits for: that its blocks come from the disk. */
interface Promotion extends Wish {
  readonly handle: number;
  /** When the request goes on without them. */
  readonly dueAt: number;
  /** Other requests that want the same blocks. */
  readonly waiters: Set<number>;
  /** The answer has come, or comes too late. */
  isOver: boolean;
}

/** A part of the ranks' work. */
interface DiskJob {
  readonly kind: 'find' | 'read' | 'write';
  readonly keys: readonly bigint[];
  readonly places: Int32Array;
  readonly promotion: Promotion | null;
  /** By key: 1 = every rank that has reported says yes. */
  readonly good: Uint8Array;
  /** Begun before the last reset. */
  isStale: boolean;
}

/** What `DiskBlocks` is made of. */
export interface DiskBlocksOptions {
  /** Names the KV cache groups of the engine, once it is known; empty for one group of full attention. */
  readonly groups: () => string;
  /** The tier in front of the disk. */
  readonly index: TierIndex;
  readonly ranks: readonly number[];
  readonly anomalies: Anomalies;
  readonly wake: (handle: number) => void;
  readonly now: () => number;
  /** Most milliseconds that a request waits. */
  readonly budgetMs: number;
}

/** Share of the host tier that writes, and that one promotion, may use at once. */
const SHARE = 2;
const NO_PLACES = new Int32Array(0);

/**
 * The third tier: blocks on disk behind the host tier, as the scheduler side sees them. What the host tier gets is
 * written to the disk too, so evicting it costs nothing, and an engine that starts anew finds it. What a request wants
 * and the host tier lacks is looked for on the disk: first which keys every rank has, then these are read into places of
 * the host tier. The request waits for that, and for no longer than the budget.
 *
 * Invariants: the places of a write are in use, and those of a read are being filled, until every rank has reported; a
 * reset changes that not, it only makes their content worthless. `#reading` has the keys of the promotions that are not
 * over.
 */
export class DiskBlocks {
  readonly #options: DiskBlocksOptions;
  readonly #jobs: RankedJobs<DiskJob>;
  /** The jobs that the ranks have not all reported. */
  readonly #live = new Set<DiskJob>();
  /** By handle: what was asked for a request that was not admitted since. The oldest first. */
  readonly #asked = new Map<number, Promotion>();
  readonly #reading = new Map<bigint, Promotion>();
  #finds: KeyedOrder[] = [];
  #reads: KeyedOrder[] = [];
  #writes: KeyedOrder[] = [];
  /** What is to be written with the next plan. */
  #keys: bigint[] = [];
  #places: number[] = [];
  #mustReset = false;
  #numWriting = 0;
  readonly #counts = { lookups: 0, hits: 0, readBlocks: 0, writtenBlocks: 0, skippedBlocks: 0, late: 0 };

  constructor(options: DiskBlocksOptions) {
    this.#options = options;
    this.#jobs = new RankedJobs(options.anomalies);
  }

  /** Whether the workers have to be told of something. */
  get hasOrders(): boolean {
    return this.#mustReset || this.#keys.length + this.#finds.length + this.#reads.length > 0;
  }

  /** Most blocks that are read for a request, or written, at once. */
  get mostBlocks(): number {
    return Math.max(1, Math.floor(this.#options.index.numPlaces / SHARE));
  }

  /** Whether a request has asked since it was admitted last; null = it has not. Then: whether it has to wait. */
  awaits(handle: number): boolean | null {
    const asked = this.#asked.get(handle);
    return asked === undefined ? null : !asked.isOver;
  }

  /** Asks for blocks that the host tier lacks. Call it if `awaits` is null. The request has to wait, and is woken. */
  ask(handle: number, wish: Wish): void {
    const { keys } = wish;
    const [first] = keys;
    const other = this.#reading.get(first);
    if (other !== undefined) {
      other.waiters.add(handle);
      return;
    }
    const dueAt = this.#options.now() + this.#options.budgetMs;
    const { choose } = wish;
    const promotion: Promotion = { handle, keys, choose, dueAt, waiters: new Set(), isOver: false };
    this.#asked.set(handle, promotion);
    for (const key of keys) if (!this.#reading.has(key)) this.#reading.set(key, promotion);
    this.#finds.push({ job: this.#begin('find', keys, NO_PLACES, promotion), keys, places: NO_PLACES });
    this.#counts.lookups++;
  }

  /** A request was admitted, or has ended: it waits no more. Whoever wants the same blocks is asked again. */
  forget(handle: number): void {
    const promotion = this.#asked.get(handle);
    if (promotion === undefined) return;
    this.#asked.delete(handle);
    this.#conclude(promotion, false);
  }

  /** A place of the host tier was filled: its content is to be written. */
  write(key: bigint, place: number): void {
    if (this.#numWriting >= this.mostBlocks) {
      this.#counts.skippedBlocks++;
      return;
    }
    this.#options.index.use(place);
    this.#numWriting++;
    this.#keys.push(key);
    this.#places.push(place);
  }

  /** What the workers are to do; undefined = nothing. Lets the requests go on whose time is over. */
  take(): DiskOrders | undefined {
    this.#expire();
    if (!this.hasOrders) return undefined;
    if (this.#keys.length > 0) {
      const [keys, places] = [this.#keys, Int32Array.from(this.#places)];
      this.#writes.push({ job: this.#begin('write', keys, places, null), keys, places });
      this.#keys = [];
      this.#places = [];
    }
    const groups = this.#options.groups();
    const [finds, reads, writes] = [this.#finds, this.#reads, this.#writes];
    const orders = { groups, reset: this.#mustReset, finds, reads, writes };
    this.#mustReset = false;
    this.#finds = [];
    this.#reads = [];
    this.#writes = [];
    return orders;
  }

  /** Takes what a rank reports. @returns whether the host tier has changed */
  report(rank: number, { ended }: DiskReport): boolean {
    let changed = false;
    for (const { job, good } of ended) {
      const pending = this.#jobs.get(job)?.payload.good;
      pending?.forEach((_, i) => {
        if (good[i] !== 1) pending[i] = 0;
      });
      const over = this.#jobs.report(job, rank, Verdict.ok);
      if (over !== null) changed = this.#end(over.payload) || changed;
    }
    return changed;
  }

  /**
   * Everything on the disk is worthless from now on. Jobs under way keep their places until they are over; their reports
   * are counted, and change nothing else.
   */
  reset(): void {
    this.#mustReset = true;
    for (const job of this.#live) job.isStale = true;
    for (const place of this.#places) this.#release(place);
    this.#keys = [];
    this.#places = [];
    for (const promotion of [...this.#asked.values()]) this.#conclude(promotion);
  }

  stats(): DiskStats {
    return {
      ...this.#counts,
      inFlight: this.#jobs.size,
      waiting: this.#numWaiting,
      tracked: this.#asked.size,
    };
  }

  get #numWaiting(): number {
    let count = 0;
    for (const { isOver, waiters } of this.#asked.values()) count += isOver ? 0 : 1 + waiters.size;
    return count;
  }

  #begin(
    kind: DiskJob['kind'],
    keys: readonly bigint[],
    places: Int32Array,
    promotion: Promotion | null,
  ): number {
    const good = new Uint8Array(keys.length).fill(1);
    const job: DiskJob = { kind, keys, places, promotion, good, isStale: false };
    this.#live.add(job);
    return this.#jobs.begin(this.#options.ranks, job);
  }

  #end(job: DiskJob): boolean {
    const { kind, places, isStale, promotion } = job;
    this.#live.delete(job);
    // A store does not know of the reset that came meanwhile: it is no fault, and never thrown.
    if (isStale) this.#options.anomalies.report('after-reset', `a ${kind} from before a reset`, null, true);
    if (kind === 'write') {
      for (const place of places) this.#release(place);
      if (!isStale) this.#counts.writtenBlocks += numOnes(job.good);
      return false;
    }
    if (kind === 'find') {
      if (isStale || promotion === null || promotion.isOver || !this.#read(job, promotion)) {
        if (promotion !== null) this.#conclude(promotion);
      }
      return false;
    }
    return this.#arrived(job);
  }

  /** Has the keys read that are wanted of those that every rank has. @returns false if there is nothing to read, or no room for it */
  #read({ keys, good }: DiskJob, promotion: Promotion): boolean {
    const { index } = this.#options;
    const found = new Set(keys.filter((_, i) => good[i] === 1));
    if (found.size === 0) return false;
    const { free, idle } = index.counts();
    const room = Math.min(this.mostBlocks, free + idle);
    const wanted = promotion.choose((key) => found.has(key), room);
    if (wanted.length === 0) return false;
    const places = Int32Array.from(wanted, () => index.take());
    this.#reads.push({ job: this.#begin('read', wanted, places, promotion), keys: wanted, places });
    return true;
  }

  #arrived({ keys, places, good, isStale, promotion }: DiskJob): boolean {
    const { index } = this.#options;
    let numGood = 0;
    // The last block first: then the beginnings of texts, which more requests share, stay longest.
    for (let i = keys.length - 1; i >= 0; i--) {
      if (isStale || good[i] === 0) index.giveBack(places[i]);
      else {
        index.put(keys[i], places[i]);
        numGood++;
      }
    }
    this.#counts.readBlocks += numGood;
    if (numGood > 0) this.#counts.hits++;
    if (promotion?.isOver) this.#counts.late++;
    if (promotion !== null) this.#conclude(promotion);
    return true;
  }

  #expire(): void {
    if (this.#asked.size === 0) return;
    const now = this.#options.now();
    for (const promotion of this.#asked.values())
      if (!promotion.isOver && now >= promotion.dueAt) this.#conclude(promotion);
  }

  /** Nobody waits for a promotion any more. @param wakes whether its own request is woken too */
  #conclude(promotion: Promotion, wakes = true): void {
    if (promotion.isOver) return;
    promotion.isOver = true;
    for (const key of promotion.keys) if (this.#reading.get(key) === promotion) this.#reading.delete(key);
    if (wakes) this.#options.wake(promotion.handle);
    for (const handle of promotion.waiters) this.#options.wake(handle);
    promotion.waiters.clear();
  }

  #release(place: number): void {
    this.#options.index.release(place);
    this.#numWriting--;
  }
}

function numOnes(flags: Uint8Array): number {
  return flags.reduce((sum, flag) => sum + flag, 0);
}
