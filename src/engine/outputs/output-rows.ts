import { firstOf, INSPECT, showFacts } from '../../base/inspect.js';
import type { EngineOutputs, OutputEnd, OutputRequest } from './engine-outputs.js';

const FIRST_ROWS = 64;

/**
 * Outputs while they are collected. They are emptied and filled again, so that a step with no more
 * output than the previous one allocates nothing.
 */
export class OutputRows implements EngineOutputs {
  length = 0;
  readonly requests: OutputRequest[] = [];
  tokens: Int32Array = new Int32Array(FIRST_ROWS);
  tokenOffsets: Int32Array = new Int32Array(FIRST_ROWS + 1);
  extras: unknown[] | null = null;
  readonly ends: (OutputEnd | null)[] = [];

  get numTokens(): number {
    return this.tokenOffsets[this.length];
  }

  /** Adds a row with one token. */
  add(request: OutputRequest, token: number): void {
    const at = this.numTokens;
    if (at === this.tokens.length) this.#growTokens(at + 1);
    this.tokens[at] = token;
    this.extras?.push(undefined);
    this.#endRow(request, at + 1);
  }

  /** Adds a row with the `count` tokens of `source` from index `from` on, and the extras at the same indexes. */
  addAll(
    request: OutputRequest,
    source: Int32Array,
    from: number,
    count: number,
    extras: readonly unknown[] | null,
  ): void {
    const at = this.numTokens;
    if (at + count > this.tokens.length) this.#growTokens(at + count);
    for (let i = 0; i < count; i++) this.tokens[at + i] = source[from + i];
    if (extras !== null || this.extras !== null) {
      this.extras ??= Array.from({ length: at }, () => undefined);
      for (let i = from; i < from + count; i++) this.extras.push(extras?.[i]);
    }
    this.#endRow(request, at + count);
  }

  /**
   * Adds an end: to the last row if that belongs to the same request and has none, else as a row
   * without tokens.
   */
  end(request: OutputRequest, end: OutputEnd): void {
    const last = this.length - 1;
    if (last < 0 || this.requests[last] !== request || this.ends[last] !== null)
      this.#endRow(request, this.numTokens);
    this.ends[this.length - 1] = end;
  }

  /** Drops all rows. References to requests beyond twice the row count are released. */
  clear(): void {
    const { requests, ends, length } = this;
    if (requests.length > 2 * length + FIRST_ROWS) {
      requests.length = length;
      ends.length = length;
    }
    this.length = 0;
    if (this.extras !== null) this.extras = null;
  }

  /** For `console.log`: the first rows, each with its id, its number of tokens and its end. */
  [INSPECT](depth: number, options: object): string {
    const { length, requests, tokenOffsets, ends } = this;
    const rows = firstOf(length, (row) => {
      const reason = ends[row]?.finishReason;
      const count = tokenOffsets[row + 1] - tokenOffsets[row];
      return `${requests[row].id}: ${count} tokens${reason === undefined ? '' : `, ${reason}`}`;
    });
    return showFacts('EngineOutputs', depth, options, { length, rows });
  }

  #endRow(request: OutputRequest, end: number): void {
    const row = this.length++;
    // Mostly the previous step had the same requests here, and storing an object costs more than
    // comparing two.
    if (this.requests[row] !== request) this.requests[row] = request;
    if (this.ends[row] !== null) this.ends[row] = null;
    if (row + 1 === this.tokenOffsets.length) this.tokenOffsets = grown(this.tokenOffsets, row + 2);
    this.tokenOffsets[row + 1] = end;
  }

  #growTokens(atLeast: number): void {
    this.tokens = grown(this.tokens, atLeast);
  }
}

/** A copy with at least twice the room. */
function grown(array: Int32Array, atLeast: number): Int32Array {
  const larger = new Int32Array(Math.max(atLeast, 2 * array.length));
  larger.set(array);
  return larger;
}
