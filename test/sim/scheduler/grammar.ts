// A grammar with given answers.
import type { Grammar } from '../../../src/scheduler/request/grammar.js';
import type { GrammarAudit } from '../audit/grammar-audit.js';

/** The behaviour of a simulated grammar. */
export interface GrammarPlan {
  /** Times that it answers that it is not ready. */
  notReady: number;
  /** Tokens that it takes before it refuses. */
  takes: number;
  /** Drafts that it allows at once. */
  allows: number;
  /** The number of the call that throws, from 1 on; 0 = none. */
  throwsAt: number;
}

/** A grammar that follows its plan, and reports its calls to the auditor. */
export class SimGrammar implements Grammar {
  handle = -1;
  audit: GrammarAudit | null = null;
  /**
   * The error that the auditor threw inside of a call: the scheduler takes it for a failure of the
   * grammar.
   */
  violation: unknown = null;
  readonly #plan: GrammarPlan;
  #numCalls = 0;
  #numTaken = 0;

  constructor(plan: GrammarPlan) {
    this.#plan = { ...plan };
  }

  ready(): boolean {
    return this.#answer(
      () => this.#plan.notReady-- <= 0,
      (answer) => this.audit?.ready(this.handle, answer),
    );
  }

  acceptTokens(tokens: Int32Array): boolean {
    const shown = Array.from(tokens);
    this.#numTaken += shown.length;
    return this.#answer(
      () => this.#numTaken <= this.#plan.takes,
      (answer) => this.audit?.accepted(this.handle, shown, answer),
    );
  }

  validateTokens(tokens: Int32Array): number {
    return this.#answer(
      () => Math.min(tokens.length, this.#plan.allows),
      (answer) => this.audit?.validated(this.handle, answer),
    );
  }

  #answer<T>(decide: () => T, tell: (answer: T | null) => void): T {
    const throws = ++this.#numCalls === this.#plan.throwsAt;
    const answer = throws ? null : decide();
    try {
      tell(answer);
    } catch (error) {
      this.violation ??= error;
    }
    if (answer === null) throw new Error('planted in a grammar');
    return answer;
  }
}
