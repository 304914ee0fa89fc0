/** The executor's result for one plan. Entries are in the order of the plan. */
export interface StepResult {
  /** Sampled tokens of all entries, one after the other. */
  tokens: Int32Array;
  /**
   * Tokens of each entry, at most its `maxOutputTokens`: 0 while its prompt is not fully computed, otherwise accepted
   * drafts + 1.
   */
  counts: Int32Array;
  /** Non-zero: the entry failed, and its request ends with `error`. */
  errors?: Uint8Array | undefined;
}

/**
 * A `StepResult` with the sum of its counts, its arrays read once: they refer to memory whose size
 * cannot change. An instance is always checked.
 */
export class ParsedResult implements StepResult {
  readonly tokens: Int32Array;
  readonly counts: Int32Array;
  errors: Uint8Array | undefined = undefined;
  /** The sum of the counts. */
  numTokens = 0;

  constructor(tokens: Int32Array, counts: Int32Array) {
    this.tokens = tokens;
    this.counts = counts;
  }
}

/** Draft tokens for the entries of a plan, in the order of the plan. */
export interface Drafts {
  /** Draft tokens of all entries, one entry after the other. */
  tokens: Int32Array;
  /** Drafts of each entry, 0 to numSpeculativeTokens. */
  counts: Int32Array;
}
