/** What a request wants of the disk. */
export interface Wish {
  /** Keys that the host tier lacks, in the order of the request's tokens; at least one. */
  readonly keys: readonly bigint[];
  /** Tokens that need not be computed if the disk has all of the keys. */
  readonly numTokens: number;
  /**
   * Which of the keys are to be read, in the order of use.
   * @param found whether the disk has a key
   * @param room most blocks that can be read
   */
  choose(found: (key: bigint) => boolean, room: number): readonly bigint[];
}

/** What a request waits for: that its blocks come from the disk. */
export interface Promotion extends Wish {
  readonly handle: number;
  readonly begunAt: number;
  /** When the request goes on without them. */
  readonly dueAt: number;
  /** Other requests that want the same blocks. */
  readonly waiters: Set<number>;
  /** The answer has come, or comes too late. */
  isOver: boolean;
}

/** When a promotion begins, and when its request goes on. Milliseconds of the connector's clock. */
export type PromotionTime = Pick<Promotion, 'begunAt' | 'dueAt'>;

/**
 * Which requests wait for which blocks of the disk. A block is read for one request at a time: others that want it wait for the same
 * promotion.
 *
 * Invariant: `#reading` has the keys of the promotions that are not over.
 */
export class Promotions {
  readonly #wake: (handle: number) => void;
  /** By handle: what was asked for a request that was not admitted since; null: it was answered at once. The oldest first. */
  readonly #asked = new Map<number, Promotion | null>();
  readonly #reading = new Map<bigint, Promotion>();

  constructor(wake: (handle: number) => void) {
    this.#wake = wake;
  }

  /** Requests that were asked for, and not admitted since. */
  get size(): number {
    return this.#asked.size;
  }

  /** Requests that wait. */
  get numWaiting(): number {
    let count = 0;
    for (const promotion of this.#asked.values())
      if (promotion !== null && !promotion.isOver) count += 1 + promotion.waiters.size;
    return count;
  }

  /** Whether a request has asked since it was admitted last; null = it has not. Then: whether it has to wait. */
  awaits(handle: number): boolean | null {
    const asked = this.#asked.get(handle);
    if (asked === undefined) return null;
    return asked !== null && !asked.isOver;
  }

  /** A request wants a key. @returns whether it waits now for the promotion that brings that key */
  join(handle: number, key: bigint): boolean {
    const other = this.#reading.get(key);
    other?.waiters.add(handle);
    return other !== undefined;
  }

  /** A request has to wait. */
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

  /** A request was admitted, or has ended: it waits no more. Whoever wants the same blocks is asked again. */
  forget(handle: number): void {
    const promotion = this.#asked.get(handle);
    this.#asked.delete(handle);
    if (promotion) this.#conclude(promotion, false);
  }

  /** Nobody waits for a promotion any more. */
  conclude(promotion: Promotion): void {
    this.#conclude(promotion, true);
  }

  /** Nobody waits any more for what begun before now is over. @param now Infinity: for anything */
  expire(now: number): void {
    for (const promotion of this.#asked.values())
      if (promotion !== null && now >= promotion.dueAt) this.#conclude(promotion, true);
  }

  /** @param wakes whether its own request is woken too */
  #conclude(promotion: Promotion, wakes: boolean): void {
    if (promotion.isOver) return;
    promotion.isOver = true;
    for (const key of promotion.keys) if (this.#reading.get(key) === promotion) this.#reading.delete(key);
    if (wakes) this.#wake(promotion.handle);
    for (const handle of promotion.waiters) this.#wake(handle);
    promotion.waiters.clear();
  }
}
