import type { Plan } from '../../scheduler/plan/plan.js';

/**
 * A round of the engine whose plan the GPU has not decided yet. Whoever comes first carries it to its end: the loop that began
 * it, or a client that wants to change something.
 */
export class PendingRound<Report> {
  readonly #decided: () => Plan;
  readonly #rest: (plan: Plan) => Report;
  /** How the rest of the round ended: gives its report, or throws what it threw. */
  #ended: (() => Report) | null = null;

  /**
   * @param decided waits for the plan in place; asked again it returns, or throws, the same
   * @param rest what the round does with the plan; it is called once
   */
  constructor(decided: () => Plan, rest: (plan: Plan) => Report) {
    this.#decided = decided;
    this.#rest = rest;
  }

  /** Carries the round to its end, the first time. @returns its report @throws what the round throws */
  finish(): Report {
    const plan = this.#decided();
    this.#ended ??= this.#end(plan);
    return this.#ended();
  }

  /** `finish` for a caller whom the outcome does not concern: whoever awaits the round is told what it throws. */
  tryToFinish(): void {
    try {
      this.finish();
    } catch {
      // See above.
    }
  }

  #end(plan: Plan): () => Report {
    try {
      const report = this.#rest(plan);
      return () => report;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  }
}
