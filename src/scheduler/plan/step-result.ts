/** What the executor brings back for one plan, in plan order. */
export interface StepResult {
  /** Sampled tokens of all entries, one after the other. */
  tokens: Int32Array;
  /** Tokens of each entry, at most its `maxOutputTokens`: 0 while its prompt is not computed, else accepted drafts + 1. */
  counts: Int32Array;
  /** Non-zero: this entry failed. Its request ends with `error`. */
  errors?: Uint8Array;
}

/** A checked `StepResult`, and the sum of its counts. */
export interface TakenResult extends StepResult {
  numTokens: number;
}

/** Draft tokens for the entries of a plan, in plan order. */
export interface Drafts {
  tokens: Int32Array;
  /** Drafts of each entry, 0 to numSpeculativeTokens. */
  counts: Int32Array;
}
