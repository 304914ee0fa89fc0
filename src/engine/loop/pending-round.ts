import type { Plan } from '../../scheduler/plan/plan.js';
import type { StepReport } from './step-loop.js';

/** A round of the engine whose plan the GPU has not decided yet. Whoever comes first carries it to its end. */
export class PendingRound {
  readonly #decided: () => Plan;
  readonly #rest: (plan: Plan) => StepReport;
  /** How the rest ended: what it answered, or threw. */
  #ended: (() => StepReport) | null = null;

  /**
   * @param decided waits for the plan in place; asked again it answers, or throws, the same
   * @param rest what the round does with it, once
   */
  constructor(decided: () => Plan, rest: (plan: Plan) => StepReport) {
    this.#decided = decided;
    this.#rest = rest;
  }

  finish(): StepReport {
    const plan = this.#decided();
    this.#ended ??= this.#end(plan);
    return this.#ended();
  }

  /** For whom the round does not concern: whoever awaits it is told what it throws. */
  tryToFinish(): void {
    try {
      this.finish();
    } catch {
      // See above.
    }
  }

  #end(plan: Plan): () => StepReport {
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
