/** Why an entry of a step failed: the code that the message of its request has (docs/llama-cpp.md). */
export const EntryError = {
  none: 0,
  /** The call of llama.cpp that had its tokens. */
  call: 1,
  /** Its parameters of sampling, or its grammar, cannot be used. */
  sampler: 2,
  /** No token can come: the logits are no numbers, its grammar is at an end, or all tokens are barred. */
  noToken: 3,
} as const;
