import { NO_TOKEN } from '../../core/core.js';
import type { Plan } from '../plan/plan.js';
import type { StepOutputs } from '../plan/step-outputs.js';
import type { ParsedResult } from '../plan/step-result.js';
import { FinishCode } from '../request/status.js';
import type { Members } from './members.js';

/**
 * The rows of the steady entries of the plan being updated, and the rows that a rule must examine.
 */
export class Rows {
  /** The entries that a rule examines, and their rows. */
  readonly entries: Int32Array;
  readonly rows: Int32Array;
  numLooks = 0;
  /** 0, 1, 2, ...: the index of each entry's token. */
  readonly #offsets: Int32Array;
  /** The array from which native code reads the tokens. */
  readonly #sampled: Int32Array;

  /** @param capacity the maximum number of entries of a plan */
  constructor(capacity: number, sampled: Int32Array) {
    this.entries = new Int32Array(capacity);
    this.rows = new Int32Array(capacity);
    this.#offsets = Int32Array.from({ length: capacity }, (_, i) => i);
    this.#sampled = sampled;
  }

  /**
   * Copies the token of each entry to the array that native code reads, and notes the entries that
   * must be examined.
   * @param tick the tick of the members' clock for this update
   * @returns false if an entry has another number of tokens
   */
  copyTokens(
    { slots, ends, numSteady }: Plan,
    result: ParsedResult,
    members: Members,
    tick: number,
  ): boolean {
    const { tokens, counts } = result;
    const sampled = this.#sampled;
    const { dueAt } = members;
    let others = 0;
    let numLooks = 0;
    for (let i = 0; i < numSteady; i++) {
      const token = tokens[i];
      others |= counts[i] ^ 1;
      sampled[i] = token;
      if (token === ends[i] || dueAt[slots[i]] <= tick) this.entries[numLooks++] = i;
    }
    this.numLooks = numLooks;
    return others === 0;
  }

  /**
   * Adds one row for each entry, except for requests that have ended, or whose output was dropped,
   * since (get and skip).
   * @returns the number of skipped entries
   */
  fill(plan: Plan, outputs: StepOutputs): number {
    const { requests, dropped, numSteady } = plan;
    let from = 0;
    let kept = 0;
    for (let look = 0; look < this.numLooks; look++) {
      const i = this.entries[look];
      this.entries[kept] = i;
      this.rows[kept] = outputs.length + i - from;
      if (requests[i].finishCode === FinishCode.none && dropped[i] === 0) kept++;
      else {
        this.#sampled[i] = NO_TOKEN;
        this.#add(plan, outputs, from, i);
        from = i + 1;
      }
    }
    this.#add(plan, outputs, from, numSteady);
    const numLeftOut = this.numLooks - kept;
    this.numLooks = kept;
    return numLeftOut;
  }

  /** Adds the rows of the entries from `from` to `to` - 1. */
  #add({ requests: of }: Plan, outputs: StepOutputs, from: number, to: number): void {
    const row = outputs.length;
    const { requests, tokenOffsets, tokenCounts, finishReasons } = outputs;
    const end = row + to - from;
    tokenOffsets.set(row + from === 0 ? this.#offsets : this.#offsets.subarray(from, to), row);
    tokenCounts.fill(1, row, end);
    finishReasons.fill(FinishCode.none, row, end);
    for (let i = from; i < to; i++) {
      const request = of[i];
      if (requests[row + i - from] !== request) requests[row + i - from] = request;
    }
    outputs.length = end;
  }
}
