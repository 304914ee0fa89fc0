const FIRST_CAPACITY = 16;

/**
 * The tokens that one stage has made for a request, with what its executor said beside each of them. Outputs are copied into it, since
 * thousands of arrays of one token each are slow to keep.
 */
export class TokenList {
  #tokens = new Int32Array(FIRST_CAPACITY);
  /** One for each token; null: no output had any. */
  #extras: unknown[] | null = null;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(tokens: Int32Array, extras: readonly unknown[] | null): void {
    const end = this.#length + tokens.length;
    if (end > this.#tokens.length) {
      const grown = new Int32Array(Math.max(end, 2 * this.#tokens.length));
      grown.set(this.#tokens.subarray(0, this.#length));
      this.#tokens = grown;
    }
    this.#tokens.set(tokens, this.#length);
    if (extras !== null) this.#extras ??= Array.from({ length: this.#length }, () => undefined);
    if (this.#extras !== null) for (let i = 0; i < tokens.length; i++) this.#extras.push(extras?.[i]);
    this.#length = end;
  }

  /** A copy of the tokens from one index to before another one. */
  tokens(from = 0, to = this.#length): Int32Array {
    return this.#tokens.slice(from, to);
  }

  /** A copy of what was said beside these tokens; null if nothing was beside any token of the list. */
  extras(from = 0, to = this.#length): unknown[] | null {
    return this.#extras?.slice(from, to) ?? null;
  }
}
