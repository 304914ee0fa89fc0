// The fake grammar of a trace.
import type { SubjectGrammar } from './subject.js';
import type { AddEvent } from './trace.js';

/** The fake grammar of a trace: it refuses some drafts, and from some number of tokens on everything. */
export class TraceGrammar implements SubjectGrammar {
  readonly #mod: number;
  readonly #rejectAt: number;
  #isReady = false;
  #fails = false;
  #accepted = 0;

  constructor({ mod, reject_at }: NonNullable<AddEvent['so']>) {
    this.#mod = mod;
    this.#rejectAt = reject_at;
  }

  /** Its compilation has finished. @param fails it does not compile */
  finish(fails: boolean): void {
    this.#isReady = true;
    this.#fails = fails;
  }

  ready(): boolean {
    if (this.#fails) throw new Error('the grammar of the trace does not compile');
    return this.#isReady;
  }

  acceptTokens(tokens: Int32Array): boolean {
    this.#accepted += tokens.length;
    return this.#rejectAt < 0 || this.#accepted <= this.#rejectAt;
  }

  validateTokens(tokens: Int32Array): number {
    if (this.#mod === 0) return tokens.length;
    const refused = tokens.findIndex((token) => token % this.#mod === 0);
    return refused < 0 ? tokens.length : refused;
  }
}
