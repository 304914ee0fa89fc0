/** What a peer said of a lease before it was granted. */
interface Word<Reading> {
  isReleased: boolean;
  readonly readings: Reading[];
}

/** Leases of which words are kept at most. */
const MAX_KEYS = 1024;
/** Reads of one lease that are kept at most. */
const MAX_READINGS = 16;

/**
 * What peers said of leases that were not granted yet: a message can overtake the plan that grants the lease. The words
 * take effect with the grant. There is a bound, since a foreign peer may name any lease; behind it the oldest are
 * forgotten.
 */
export class EarlyWords<Reading extends { readonly transfer: string }> {
  readonly #words = new Map<string, Word<Reading>>();

  /** Leases of which words are kept. */
  get size(): number {
    return this.#words.size;
  }

  /** Keeps a release. @returns true */
  release(key: string): boolean {
    this.#at(key).isReleased = true;
    return true;
  }

  /** Keeps an announced read. @returns false if there are too many of this lease */
  read(key: string, reading: Reading): boolean {
    const { readings } = this.#at(key);
    if (readings.some(({ transfer }) => transfer === reading.transfer)) return true;
    if (readings.length >= MAX_READINGS) return false;
    readings.push(reading);
    return true;
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
    const word = { isReleased: false, readings: [] };
    this.#words.set(key, word);
    if (this.#words.size > MAX_KEYS) {
      const [oldest] = this.#words.keys();
      this.#words.delete(oldest);
    }
    return word;
  }
}
