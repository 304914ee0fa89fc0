/**
 * Constrains the tokens of one request, given with the request (vLLM's StructuredOutputGrammar).
 * The scheduler asks the grammar. The executor fills bitmasks from it, in the order of
 * `Plan.bitmaskEntries`. The grammar's methods are looked up once, when the request is added, and
 * are called on the grammar itself.
 *
 * Each call is inside an exception boundary. A method that throws, or whose answer is invalid, ends
 * this one request with `error` and is counted as the anomaly `grammar-failed`. A method must not
 * call back into the scheduler (ERR_BLOCKSTEP_REENTRANT, thrown into the method), except to
 * `abort`.
 */
export interface Grammar {
  /**
   * Whether the grammar is compiled. Each `schedule` that reaches the waiting request asks, until the answer is true.
   */
  ready(): boolean;
  /**
   * Accepts generated tokens, each once, in order. Rejected drafts and dropped outputs are never
   * passed to it.
   * @param tokens valid during the call
   * @returns false if the tokens do not fit the grammar: the request ends with `error`
   */
  acceptTokens(tokens: Int32Array): boolean;
  /**
   * How many leading tokens the grammar would accept now, 0 to `tokens.length`. Must change
   * nothing. Only drafts are asked about.
   * @param tokens valid during the call
   */
  validateTokens(tokens: Int32Array): number;
}

/** The methods of a grammar, looked up and bound to it. */
export interface GrammarCalls {
  readonly ready: () => unknown;
  readonly acceptTokens: (tokens: Int32Array) => unknown;
  readonly validateTokens: (tokens: Int32Array) => unknown;
}

/** The questions to a grammar, with the numbers that a log uses for them. */
export const GrammarQuestion = {
  /** Is the grammar compiled? */
  ready: 0,
  /** Do the generated tokens fit the grammar? The grammar takes them. */
  acceptTokens: 1,
  /** How many leading drafts would the grammar accept? */
  validateTokens: 2,
} as const;
export type GrammarQuestion = keyof typeof GrammarQuestion;

/**
 * An answer of a grammar as recorded in a log. It is 0 or 1 for a boolean, a number of tokens, or
 * -1 if there was no valid answer.
 */
export interface GrammarAnswer {
  /** Handle of the request that the grammar constrains. */
  handle: number;
  /** The method of the grammar that was called. */
  question: GrammarQuestion;
  /** `ready`, `acceptTokens`: 0 or 1. `validateTokens`: a number of tokens. -1: no valid answer. */
  answer: number;
}
