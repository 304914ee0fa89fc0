import { Workload } from './workload.js';

/** One request of a trace, as a reader returns it. */
export interface TraceRow {
  /** Time of arrival in milliseconds; all rows count from the same moment. */
  arrivalMs: number;
  /** Prompt length in tokens, >= 1. */
  inputTokens: number;
  /** Tokens to generate, >= 1. */
  outputTokens: number;
  /**
   * One id per 512 prompt tokens; null in formats without hash ids. A workload has ids in all rows
   * or in none.
   */
  hashIds: ArrayLike<number> | null;
}

const INITIAL_CAPACITY = 1024;

/**
 * Collects rows into a `Workload`. Rows are kept in typed arrays only, so memory grows with their
 * number alone.
 */
export class WorkloadBuilder {
  #length = 0;
  #arrivalMs = new Float64Array(INITIAL_CAPACITY);
  #inputTokens = new Int32Array(INITIAL_CAPACITY);
  #outputTokens = new Int32Array(INITIAL_CAPACITY);
  #hashStarts = new Uint32Array(INITIAL_CAPACITY);
  #hashIds = new Int32Array(INITIAL_CAPACITY);
  #numHashIds = 0;
  #hasHashIds = false;

  get length(): number {
    return this.#length;
  }

  add(row: TraceRow): void {
    const at = this.#length++;
    if (this.#length > this.#arrivalMs.length) this.#growRows();
    this.#arrivalMs[at] = row.arrivalMs;
    this.#inputTokens[at] = row.inputTokens;
    this.#outputTokens[at] = row.outputTokens;
    this.#hashStarts[at] = this.#numHashIds;
    if (row.hashIds !== null) this.#addHashIds(row.hashIds);
  }

  /**
   * Makes the workload of all rows: stably sorted by arrival, times counted from the first arrival.
   * The builder must not be used afterwards.
   * @param seed of the contents of prompts without hash ids
   */
  build(seed: number): Workload {
    const order = this.#arrivalOrder();
    const first = order.length === 0 ? 0 : this.#arrivalMs[order[0]];
    const columns = {
      arrivalMs: Float64Array.from(order, (row) => this.#arrivalMs[row] - first),
      inputTokens: Int32Array.from(order, (row) => this.#inputTokens[row]),
      outputTokens: Int32Array.from(order, (row) => this.#outputTokens[row]),
      hashStarts: this.#hasHashIds ? Uint32Array.from(order, (row) => this.#hashStarts[row]) : null,
      hashIds: this.#hashIds.subarray(0, this.#numHashIds),
    };
    return new Workload(columns, seed);
  }

  /** Row numbers in order of arrival; rows that arrive together keep the order of the file. */
  #arrivalOrder(): Uint32Array {
    const order = Uint32Array.from({ length: this.#length }, (_, row) => row);
    return order.sort((a, b) => this.#arrivalMs[a] - this.#arrivalMs[b]);
  }

  #addHashIds(ids: ArrayLike<number>): void {
    this.#hasHashIds = true;
    const end = this.#numHashIds + ids.length;
    if (end > this.#hashIds.length) {
      this.#hashIds = copyInto(new Int32Array(Math.max(end, 2 * this.#hashIds.length)), this.#hashIds);
    }
    this.#hashIds.set(ids, this.#numHashIds);
    this.#numHashIds = end;
  }

  #growRows(): void {
    const capacity = 2 * this.#arrivalMs.length;
    this.#arrivalMs = copyInto(new Float64Array(capacity), this.#arrivalMs);
    this.#inputTokens = copyInto(new Int32Array(capacity), this.#inputTokens);
    this.#outputTokens = copyInto(new Int32Array(capacity), this.#outputTokens);
    this.#hashStarts = copyInto(new Uint32Array(capacity), this.#hashStarts);
  }
}

function copyInto<T extends { set(from: ArrayLike<number>): void }>(to: T, from: ArrayLike<number>): T {
  to.set(from);
  return to;
}
