/** What a peer said of a lease before it was granted. */
interface Word<Reading> {
  isReleased: boolean;
  /** The read that was announced first. */
  reading: Reading | null;
}

/** Leases of which words are kept at most. */
const MAX_KEYS = 1024;

/**
 * What peers said of leases that were not granted yet: a message can overtake the plan that grants the lease. The words
 * take effect with the grant. There is a bound, since a foreign peer may name any lease; behind it the oldest are
 * forgotten.
 */
export class EarlyWords<Reading extends { readonly transfer: string; readonly life: string }> {
  readonly #words = new Map<string, Word<Reading>>();

  /** Leases of which words are kept. */
  get size(): number {
    return this.#words.size;
  }

  /** Keeps a release by a peer of this life, unless another peer is to read. @returns true */
  release(key: string, life: string): boolean {
    const word = this.#at(key);
    if (word.reading === null || word.reading.life === life) word.isReleased = true;
    return true;
  }

  /** Keeps an announced read. @returns false if another one of this lease was announced before */
  read(key: string, reading: Reading): boolean {
    const word = this.#at(key);
    word.reading ??= reading;
    return word.reading.transfer === reading.transfer;
  }

  /** Takes out what was said of a lease. */
  take(key: string): Word<Reading> | undefined {
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
