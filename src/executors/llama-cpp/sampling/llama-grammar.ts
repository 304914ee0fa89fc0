import type { Grammar } from '../../../scheduler/request/grammar.js';

/**
 * Constrains the tokens of a request to a grammar, as `SubmitInput.grammar`. The executor's sampler
 * picks only allowed tokens, also for drafts, so the scheduler has nothing to check. Any number of
 * requests may share an object.
 */
export class LlamaGrammar implements Grammar {
  /** The grammar in GBNF. Its start rule is `root`. */
  readonly gbnf: string;

  /** See `LlamaModel.grammar`. */
  constructor(gbnf: string) {
    this.gbnf = gbnf;
  }

  ready(): boolean {
    return true;
  }

  acceptTokens(): boolean {
    return true;
  }

  validateTokens(tokens: Int32Array): number {
    return tokens.length;
  }
}
