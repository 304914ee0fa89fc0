/**
 * What constrains the tokens of one request, given with it (vLLM's StructuredOutputGrammar). The scheduler asks it; who
 * fills bitmasks from it is the executor, in the order of `Plan.bitmaskEntries`. Its methods are looked up once, when the
 * request is added, and called on the object itself.
 *
 * Each call stands inside an exception boundary: a method that throws, or answers what makes no sense, ends this one
 * request with `error` and is counted as the anomaly `grammar-failed`. A method must not call back into the scheduler
 * (ERR_BLOCKSTEP_REENTRANT, thrown into the method), except `abort`.
 */
export interface Grammar {
  /** Whether it is compiled. Asked by each `schedule` that reaches the waiting request, until it answers true. */
  ready(): boolean;
  /**
   * Takes what was generated, in order and once; drafts that were rejected and outputs that were dropped never come
   * here. False: the tokens do not fit, and the request ends with `error`.
   * @param tokens valid during the call
   */
  acceptTokens(tokens: Int32Array): boolean;
  /**
   * How many leading tokens it would accept now, 0 to `tokens.length`. Changes nothing. Asked for drafts only.
   * @param tokens valid during the call
   */
  validateTokens(tokens: Int32Array): number;
}

/** The methods of a grammar, bound to it. */
export interface GrammarCalls {
  readonly ready: () => unknown;
  readonly acceptTokens: (tokens: Int32Array) => unknown;
  readonly validateTokens: (tokens: Int32Array) => unknown;
}

/** What a grammar was asked, by the numbers that stand in logs. */
export const GrammarQuestion = { ready: 0, acceptTokens: 1, validateTokens: 2 } as const;
export type GrammarQuestion = keyof typeof GrammarQuestion;

/** One answer as it stands in a log: a truth value as 0 or 1, a number of tokens, or -1 where there was no good answer. */
export interface GrammarAnswer {
  handle: number;
  question: GrammarQuestion;
  answer: number;
}
