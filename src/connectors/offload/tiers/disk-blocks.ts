import type { Anomalies } from '../../../base/anomalies.js';
import { BoundedSet } from '../../../base/collections/bounded-set.js';
import { type DiskJob, DiskJobs } from './disk-jobs.js';
import { DiskKeys } from './disk-keys.js';
import type { DiskOrders, DiskReport, KeyedOrder } from './orders.js';
import { Pace } from './pace.js';
import { type Promotion, Promotions, type Wish } from './promotions.js';
import type { DiskStats } from './stats.js';
import { ABSENT, type TierIndex } from './tier-index.js';

/** Options of a `DiskBlocks`. */
export interface DiskBlocksOptions {
  /**
   * Returns the name of the engine's KV cache groups and number of ranks, when it is known.
   */
  readonly layout: () => string;
  /** The index of the tier in front of the disk. */
  readonly index: TierIndex;
  readonly ranks: readonly number[];
  readonly anomalies: Anomalies;
  readonly wake: (handle: number) => void;
  readonly now: () => number;
  /** Maximum milliseconds that a request waits. */
  readonly budgetMs: number;
}

/** All writes together, and each promotion, may use 1/2 of the host tier at once. */
const SHARE = 2;
/** Writes may use 1/32 of the host tier while the disk is too slow for reads. */
const SLOW_SHARE = 32;
const NO_PLACES = new Int32Array(0);
/** Number of keys that are remembered as computed once, and as asked for since. */
const MOST_REMEMBERED = 2 ** 18;

/**
 * The third tier: blocks on disk behind the host tier, as seen by the scheduler side. Blocks that
 * are asked for a second time are written to the disk. Evicting them from the host tier then costs
 * nothing, and a restarted engine finds them. Blocks that a request wants and the host tier lacks
 * are read from the disk, if they are known to be there. If an earlier engine may have left unknown
 * blocks, the disk is first asked which keys every rank has. The request waits for that, at most
 * for the budget, and at most for the time that computing takes. A disk that is slower than
 * computing is not asked.
 *
 * Invariants: the places of a write stay in use, and the places of a read stay filling, until every
 * rank has reported. A reset does not free these places. It only invalidates their content.
 */
export class DiskBlocks {
  readonly #options: DiskBlocksOptions;
  readonly #jobs: DiskJobs;
  readonly #promotions: Promotions;
  readonly #known: DiskKeys;
  readonly #pace: Pace;
  /**
   * `#once`: keys that entered the host tier and were not asked for since. `#again`: keys that were
   * asked for, which makes them worth a write.
   */
  readonly #once = new BoundedSet<bigint>(MOST_REMEMBERED);
  readonly #again = new BoundedSet<bigint>(MOST_REMEMBERED);
  #finds: KeyedOrder[] = [];
  #reads: KeyedOrder[] = [];
  #writes: KeyedOrder[] = [];
  /** Keys of writes that are not over. */
  readonly #writing = new Set<bigint>();
  /** The keys to write with the next plan. */
  #keys: bigint[] = [];
  #places: number[] = [];
  #mustReset = false;
  #numWriting = 0;
  readonly #counts = {
    lookups: 0,
    hits: 0,
    readBlocks: 0,
    writtenBlocks: 0,
    skippedBlocks: 0,
    late: 0,
    passed: 0,
  };

  constructor(options: DiskBlocksOptions) {
    this.#options = options;
    this.#jobs = new DiskJobs(options.ranks, options.anomalies);
    this.#promotions = new Promotions(options.wake);
    this.#known = new DiskKeys(options.ranks);
    this.#pace = new Pace(options.now);
  }

  /** Whether there are orders for the workers. */
  get hasOrders(): boolean {
    return this.#mustReset || this.#keys.length + this.#finds.length + this.#reads.length > 0;
  }

  /** Maximum number of blocks that are read for one request, or written, at once. */
  get mostBlocks(): number {
    return Math.max(1, Math.floor(this.#options.index.numPlaces / SHARE));
  }

  /** Whether the disk may have a key. */
  mayHave(key: bigint): boolean {
    return !this.#known.isComplete || this.#known.has(key);
  }

  /**
   * Whether a request that has asked since its last admission must wait; null = it has not asked.
   */
  awaits(handle: number): boolean | null {
    return this.#promotions.awaits(handle);
  }

  /**
   * Asks for blocks that the host tier lacks. Call it if `awaits` is null.
   * @param wish null: the disk has none of the blocks
   * @returns whether the request must wait; if so, it will be woken
   */
  ask(handle: number, wish: Wish | null): boolean {
    if (wish !== null && this.#promotions.join(handle, wish.keys[0])) return true;
    this.#counts.lookups++;
    const waits = wish !== null && this.#asks(handle, wish);
    if (!waits) this.#promotions.answer(handle);
    return waits;
  }

  /**
   * A request was admitted or has ended, and waits no more. Other requests that want the same
   * blocks are asked about again.
   */
  forget(handle: number): void {
    this.#promotions.forget(handle);
  }

  /** A request has ended. */
  finish(handle: number): void {
    this.#pace.ended();
    this.#promotions.forget(handle);
  }

  /**
   * An admitted request wants a block. A block that was computed before is written now, or when the
   * host tier gets it.
   */
  want(key: bigint): void {
    if (this.#once.delete(key)) this.#again.add(key);
    if (!this.#again.has(key) || this.#known.has(key)) return;
    const place = this.#options.index.get(key);
    if (place !== ABSENT) this.#write(key, place);
  }

  /** A place of the host tier was filled. Its content is written if it was asked for before. */
  filled(key: bigint, place: number): void {
    if (this.#known.has(key)) return;
    if (this.#again.has(key)) this.#write(key, place);
    else this.#once.add(key);
  }

  #write(key: bigint, place: number): void {
    if (this.#writing.has(key)) return;
    const { index } = this.#options;
    if (this.#numWriting >= (this.#pace.isSlow ? Math.ceil(index.numPlaces / SLOW_SHARE) : this.mostBlocks)) {
      this.#counts.skippedBlocks++;
      return;
    }
    index.use(place);
    this.#numWriting++;
    this.#writing.add(key);
    this.#keys.push(key);
    this.#places.push(place);
  }

  /**
   * Drains the orders for the workers; undefined = none. Ends the wait of requests whose time is
   * over.
   * @param numTokens number of tokens that the plan computes
   */
  drain(numTokens: number): DiskOrders | undefined {
    this.#pace.plan(numTokens);
    if (this.#promotions.size > 0) this.#promotions.expire(this.#options.now());
    if (!this.hasOrders) return undefined;
    if (this.#keys.length > 0) {
      const [keys, places] = [this.#keys, Int32Array.from(this.#places)];
      this.#writes.push({ job: this.#jobs.begin('write', keys, places, null), keys, places });
      this.#keys = [];
      this.#places = [];
    }
    const [finds, reads, writes] = [this.#finds, this.#reads, this.#writes];
    const orders = { layout: this.#options.layout(), reset: this.#mustReset, finds, reads, writes };
    this.#mustReset = false;
    [this.#finds, this.#reads, this.#writes] = [[], [], []];
    return orders;
  }

  /** Handles the report of a rank. @returns whether the host tier has changed */
  report(rank: number, { ended, began }: DiskReport): boolean {
    let changed = false;
    if (began !== undefined) this.#known.begin(rank, began.isEmpty, began.numBlocks);
    for (const end of ended) {
      const over = this.#jobs.report(rank, end);
      if (over !== null) changed = this.#end(over) || changed;
    }
    return changed;
  }

  /**
   * Invalidates everything on the disk. Jobs under way keep their places until they are over. Their
   * reports are counted, and change nothing else.
   */
  reset(): void {
    this.#mustReset = true;
    this.#jobs.reset();
    for (const place of this.#places) this.#release(place);
    // Writes under way belong to the previous epoch.
    this.#writing.clear();
    this.#keys = [];
    this.#places = [];
    this.#known.clear();
    this.#once.clear();
    this.#again.clear();
    this.#promotions.expire(Number.POSITIVE_INFINITY);
  }

  stats(): DiskStats {
    return {
      ...this.#counts,
      inFlight: this.#jobs.size,
      waiting: this.#promotions.numWaiting,
      tracked: this.#promotions.size,
    };
  }

  #asks(handle: number, wish: Wish): boolean {
    const { keys, numTokens } = wish;
    const isSure = this.#known.isComplete;
    const wanted = isSure ? this.#choose(wish, (key) => this.#known.has(key)) : keys;
    if (wanted.length === 0) return false;
    const most = (numTokens * wanted.length) / keys.length;
    if (!this.#pace.allows(most, isSure)) {
      this.#counts.passed++;
      return false;
    }
    const begunAt = this.#pace.ask();
    // A longer wait would take more time than computing.
    const dueAt = begunAt + Math.min(this.#options.budgetMs, this.#pace.computingMs(most));
    const promotion = this.#promotions.begin(handle, wish, { begunAt, dueAt });
    if (isSure) this.#read(wanted, promotion);
    else
      this.#finds.push({
        job: this.#jobs.begin('find', keys, NO_PLACES, promotion),
        keys,
        places: NO_PLACES,
      });
    return true;
  }

  #end(job: DiskJob): boolean {
    const { kind, places, isStale, promotion } = job;
    // A store does not know of a reset that came meanwhile. Its late report is no fault, and is
    // never thrown.
    if (isStale) this.#options.anomalies.report('after-reset', `a ${kind} from before a reset`, null, true);
    if (kind === 'write') {
      for (const place of places) this.#release(place);
      if (!isStale) this.#written(job);
      return false;
    }
    if (kind === 'read') return this.#arrived(job);
    if (promotion !== null && (isStale || !this.#found(job, promotion))) this.#over(promotion, 0);
    return false;
  }

  #written({ keys, good }: DiskJob): void {
    for (const [i, key] of keys.entries()) {
      this.#writing.delete(key);
      if (good[i] > 0) this.#known.add(key);
    }
    this.#counts.writtenBlocks += good.reduce((sum, each) => sum + each, 0);
  }

  /**
   * Orders the read of wanted keys that every rank has. @returns false if there are none, or no
   * request waits
   */
  #found({ keys, good }: DiskJob, promotion: Promotion): boolean {
    const found = new Set(keys.filter((_, i) => good[i] > 0));
    for (const key of found) this.#known.add(key);
    if (found.size === 0 || promotion.isOver) return false;
    const wanted = this.#choose(promotion, (key) => found.has(key));
    if (wanted.length > 0) this.#read(wanted, promotion);
    return wanted.length > 0;
  }

  /** Chooses the keys of a wish to read, within the available room. */
  #choose(wish: Wish, found: (key: bigint) => boolean): readonly bigint[] {
    const { free, idle } = this.#options.index.counts();
    return wish.choose(found, Math.min(this.mostBlocks, free + idle));
  }

  #read(keys: readonly bigint[], promotion: Promotion): void {
    const places = Int32Array.from(keys, () => this.#options.index.take());
    this.#reads.push({ job: this.#jobs.begin('read', keys, places, promotion), keys, places });
  }

  #arrived({ keys, places, good, isStale, promotion }: DiskJob): boolean {
    const { index } = this.#options;
    let numGood = 0;
    // The last block goes first, so that the beginnings of texts, which more requests share, are
    // evicted last.
    for (let i = keys.length - 1; i >= 0; i--) {
      if (isStale || good[i] === 0) {
        index.giveBack(places[i]);
        if (!isStale) this.#known.delete(keys[i]);
      } else {
        index.put(keys[i], places[i]);
        this.#known.add(keys[i]);
        numGood++;
      }
    }
    this.#counts.readBlocks += numGood;
    if (numGood > 0) this.#counts.hits++;
    if (promotion?.isOver) this.#counts.late++;
    if (promotion !== null) this.#over(promotion, numGood / promotion.keys.length);
    return true;
  }

  /** @param share the part of the wish that arrived, 0 to 1 */
  #over(promotion: Promotion, share: number): void {
    this.#pace.looked(promotion.begunAt, share);
    this.#promotions.conclude(promotion);
  }

  #release(place: number): void {
    this.#options.index.release(place);
    this.#numWriting--;
  }
}
