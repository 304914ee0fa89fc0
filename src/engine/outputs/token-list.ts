const FIRST_CAPACITY = 16;

/**
 * The tokens of one request so far, with the extras of its executor. All are in one array, because
 * an array for each output would cost more memory than its token. So appending allocates only when
 * the array grows.
 */
export class TokenList {
  // The fields that every step touches come first.
  /** Tokens so far. */
  length = 0;
  #tokens: Int32Array;
  /** One for each token; null if no output had any. */
  #extras: unknown[] | null = null;
  readonly #expected: number;

  /**
   * @param expected the maximum number of tokens; a session may have more, this number for each
   * answer
   */
  constructor(expected = Number.POSITIVE_INFINITY) {
    this.#expected = expected;
    this.#tokens = new Int32Array(Math.min(expected, FIRST_CAPACITY));
  }

  /** Tokens that fit before the array grows. */
  get capacity(): number {
    return this.#tokens.length;
  }

  get hasExtras(): boolean {
    return this.#extras !== null;
  }

  /** Appends a token without an extra. */
  push(token: number): void {
    const at = this.length;
    const tokens = at === this.#tokens.length ? this.#grow(at + 1) : this.#tokens;
    tokens[at] = token;
    this.length = at + 1;
    if (this.#extras !== null) this.#extras.push(undefined);
  }

  /** Appends the tokens of `source` at every `stride` indexes from `from` on and before `end`, but none below 0. */
  appendColumn(source: Int32Array, from: number, end: number, stride: number): void {
    let at = this.length;
    let tokens = this.#tokens;
    const extras = this.#extras;
    for (let i = from; i < end; i += stride) {
      const token = source[i];
      if (token < 0) continue;
      if (at === tokens.length) tokens = this.#grow(at + 1);
      tokens[at++] = token;
      if (extras !== null) extras.push(undefined);
    }
    this.length = at;
  }

  /** Appends the `count` tokens of `source` from index `from` on, with the extras at the same indexes. */
  append(source: Int32Array, from: number, count: number, extras: readonly unknown[] | null): void {
    if (extras !== null || this.#extras !== null) this.#appendExtras(extras, from, count);
    let at = this.length;
    const end = at + count;
    const tokens = end > this.#tokens.length ? this.#grow(end) : this.#tokens;
    for (let i = from; at < end; at++, i++) tokens[at] = source[i];
    this.length = end;
  }

  /** The token at an index below `length`. */
  at(index: number): number {
    return this.#tokens[index];
  }

  /** A copy of the tokens from one index to before another. */
  tokens(from = 0, to = this.length): Int32Array {
    return this.#tokens.slice(from, to);
  }

  /** A copy of the extras of these tokens; null if no token of the list has an extra. */
  extras(from = 0, to = this.length): unknown[] | null {
    return this.#extras?.slice(from, to) ?? null;
  }

  #appendExtras(source: readonly unknown[] | null, from: number, count: number): void {
    this.#extras ??= Array.from({ length: this.length }, () => undefined);
    for (let i = from; i < from + count; i++) this.#extras.push(source?.[i]);
  }

  #grow(atLeast: number): Int32Array {
    const expected = this.#expected;
    const doubled = 2 * this.#tokens.length;
    const isWithin = atLeast <= expected && doubled > expected;
    const grown = new Int32Array(isWithin ? expected : Math.max(atLeast, doubled));
    grown.set(this.#tokens);
    this.#tokens = grown;
    return grown;
  }
}
