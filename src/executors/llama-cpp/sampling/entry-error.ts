/** Why an entry of a step failed: the code in the message of its request (docs/llama-cpp.md). */
export const EntryError = {
  none: 0,
  /** The call of llama.cpp with its tokens failed. */
  call: 1,
  /** Its sampling parameters or its grammar cannot be used. */
  sampler: 2,
  /**
   * No token can be sampled: the logits are no numbers, the grammar is at its end, or all tokens
   * are barred.
   */
  noToken: 3,
} as const;
