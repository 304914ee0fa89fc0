import type { Grammar } from '../../src/scheduler/request/grammar.js';

/**
 * The behaviour of a fake grammar when it is asked; by default it is ready and takes everything.
 */
export interface GrammarPlan {
  /** How often it answers that it is not ready yet. */
  notReady?: number;
  /** How many tokens it takes; the answer to more is false. */
  accepts?: number;
  /** How many drafts it allows at once. */
  allows?: number;
  /** The how-manieth call of any kind throws. */
  throwsAt?: number;
}

/** A grammar that keeps what it was shown. */
export class FakeGrammar implements Grammar {
  readonly accepted: number[] = [];
  readonly asked: string[] = [];
  readonly #plan: Required<GrammarPlan>;

  constructor(plan: GrammarPlan = {}) {
    this.#plan = { notReady: 0, accepts: 1e9, allows: 1e9, throwsAt: 1e9, ...plan };
  }

  ready(): boolean {
    this.#count('ready');
    return this.#plan.notReady-- <= 0;
  }

  acceptTokens(tokens: Int32Array): boolean {
    this.#count(`accept ${tokens.length}`);
    this.accepted.push(...tokens);
    return this.accepted.length <= this.#plan.accepts;
  }

  validateTokens(tokens: Int32Array): number {
    this.#count(`validate ${tokens.length}`);
    return Math.min(tokens.length, this.#plan.allows);
  }

  #count(what: string): void {
    this.asked.push(what);
    if (this.asked.length >= this.#plan.throwsAt) throw new Error('this grammar is broken');
  }
}
