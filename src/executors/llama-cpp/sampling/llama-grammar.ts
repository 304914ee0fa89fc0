import type { Grammar } from '../../../scheduler/request/grammar.js';

/**
 * What holds the tokens of a request to a grammar, as `SubmitInput.grammar`. The executor's sampler picks allowed tokens alone, drafts included,
 * so that nothing is left to be checked in the scheduler. One object is good for any number of requests.
 */
export class LlamaGrammar implements Grammar {
  /** The grammar in GBNF, which begins at its rule `root`. */
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
