/** The blocks that a request wants from the disk. */
export interface Wish {
  /** Keys that the host tier lacks, in the order of the request's tokens; at least one. */
  readonly keys: readonly bigint[];
  /** Number of tokens that need not be computed if the disk has all keys. */
  readonly numTokens: number;
  /**
   * Chooses the keys to read, in the order of use.
   * @param found whether the disk has a key
   * @param room maximum number of blocks that can be read
   */
  choose(found: (key: bigint) => boolean, room: number): readonly bigint[];
}

/** A transfer of blocks from the disk to the host tier, for which a request waits. */
export interface Promotion extends Wish {
  readonly handle: number;
  readonly begunAt: number;
  /** When the request continues without the blocks. */
  readonly dueAt: number;
  /** Other requests that want the same blocks. */
  readonly waiters: Set<number>;
  /** Whether the answer has come, or comes too late. */
  isOver: boolean;
}

/**
 * When a promotion begins, and when its request stops waiting. Milliseconds of the connector's
 * clock.
 */
export type PromotionTime = Pick<Promotion, 'begunAt' | 'dueAt'>;

/**
 * Tracks which requests wait for which blocks of the disk. A block is read for one request at a
 * time. Other requests that want it wait for the same promotion.
 *
 * Invariant: `#reading` has the keys of the promotions that are not over.
 */
export class Promotions {
  readonly #wake: (handle: number) => void;
  /**
   * By handle: the promotion of a request that asked and was not admitted since; null: it was
   * answered at once. The oldest first.
   */
  readonly #asked = new Map<number, Promotion | null>();
  readonly #reading = new Map<bigint, Promotion>();

  constructor(wake: (handle: number) => void) {
    this.#wake = wake;
  }

  /** Number of requests that asked and were not admitted since. */
  get size(): number {
    return this.#asked.size;
  }

  /** Number of waiting requests. */
  get numWaiting(): number {
    let count = 0;
    for (const promotion of this.#asked.values())
      if (promotion !== null && !promotion.isOver) count += 1 + promotion.waiters.size;
    return count;
  }

  /**
   * Whether a request that has asked since its last admission must wait; null = it has not asked.
   */
  awaits(handle: number): boolean | null {
    const asked = this.#asked.get(handle);
    if (asked === undefined) return null;
    return asked !== null && !asked.isOver;
  }

  /** A request wants a key. @returns whether it now waits for the promotion of that key */
  join(handle: number, key: bigint): boolean {
    const other = this.#reading.get(key);
    other?.waiters.add(handle);
    return other !== undefined;
  }

  /** A request must wait. */
  begin(handle: number, { keys, numTokens, choose }: Wish, time: PromotionTime): Promotion {
    const promotion = { handle, keys, numTokens, choose, ...time, waiters: new Set<number>(), isOver: false };
    this.#asked.set(handle, promotion);
    for (const key of keys) if (!this.#reading.has(key)) this.#reading.set(key, promotion);
    return promotion;
  }

  /** A request has asked, and need not wait. */
  answer(handle: number): void {
    this.#asked.set(handle, null);
  }

  /**
   * A request was admitted or has ended, and waits no more. Other requests that want the same
   * blocks are asked about again.
   */
  forget(handle: number): void {
    const promotion = this.#asked.get(handle);
    this.#asked.delete(handle);
    if (promotion) this.#conclude(promotion, false);
  }

  /** Ends the wait of all requests for a promotion. */
  conclude(promotion: Promotion): void {
    this.#conclude(promotion, true);
  }

  /** Ends the wait for promotions that are due. @param now Infinity: for all promotions */
  expire(now: number): void {
    for (const promotion of this.#asked.values())
      if (promotion !== null && now >= promotion.dueAt) this.#conclude(promotion, true);
  }

  /** @param wakes whether the promotion's own request is woken too */
  #conclude(promotion: Promotion, wakes: boolean): void {
    if (promotion.isOver) return;
    promotion.isOver = true;
    for (const key of promotion.keys) if (this.#reading.get(key) === promotion) this.#reading.delete(key);
    if (wakes) this.#wake(promotion.handle);
    for (const handle of promotion.waiters) this.#wake(handle);
    promotion.waiters.clear();
  }
}
