/** A peer's messages about a lease that was not granted yet. */
interface Word<Reading> {
  isReleased: boolean;
  /** The first read that was announced. */
  reading: Reading | null;
}

/** Maximum number of leases with early messages. */
const MAX_KEYS = 1024;

/**
 * Early messages of peers about leases that were not granted yet. A message can overtake the plan
 * that grants the lease; it takes effect with the grant. The number of leases is limited, because a
 * foreign peer may name any lease. Beyond the limit, the oldest messages are forgotten.
 */
export class EarlyWords<Reading extends { readonly transfer: string; readonly life: string }> {
  readonly #words = new Map<string, Word<Reading>>();

  /** Number of leases with early messages. */
  get size(): number {
    return this.#words.size;
  }

  /** Keeps a release by a peer of this life, unless another peer is going to read. @returns true */
  release(key: string, life: string): boolean {
    const word = this.#at(key);
    if (word.reading === null || word.reading.life === life) word.isReleased = true;
    return true;
  }

  /** Keeps an announced read. @returns false if another read of this lease was announced before */
  read(key: string, reading: Reading): boolean {
    const word = this.#at(key);
    word.reading ??= reading;
    return word.reading.transfer === reading.transfer;
  }

  /** Removes and returns the early message about a lease. */
  remove(key: string): Word<Reading> | undefined {
    const word = this.#words.get(key);
    this.#words.delete(key);
    return word;
  }

  #at(key: string): Word<Reading> {
    const known = this.#words.get(key);
    if (known !== undefined) return known;
    const word: Word<Reading> = { isReleased: false, reading: null };
    this.#words.set(key, word);
    if (this.#words.size > MAX_KEYS) {
      const [oldest] = this.#words.keys();
      this.#words.delete(oldest);
    }
    return word;
  }
}
