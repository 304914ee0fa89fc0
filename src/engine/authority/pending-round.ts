import type { Plan } from '../../scheduler/plan/plan.js';
import type { StepReport } from '../loop/step-loop.js';

/**
 * A round whose plan the GPU has not decided yet. Two kinds of callers can complete it: the one
 * that awaits the round, or a client's call that changes something. The first caller completes the
 * round.
 */
export class PendingRound {
  readonly #decided: () => Plan;
  readonly #rest: (plan: Plan) => StepReport;
  /** The outcome of the rest of the round: returns its report, or throws its error; null = the rest has not run. */
  #ended: (() => StepReport) | null = null;

  /**
   * @param decided waits for the plan synchronously; a second call has the same outcome as the first
   * @param rest the part of the round after the plan; called once
   */
  constructor(decided: () => Plan, rest: (plan: Plan) => StepReport) {
    this.#decided = decided;
    this.#rest = rest;
  }

  /**
   * Completes the round, unless another caller has done so. @returns the report of the round
   * @throws the error of the round
   */
  finish(): StepReport {
    const plan = this.#decided();
    this.#ended ??= this.#end(plan);
    return this.#ended();
  }

  /**
   * `finish`, for a caller that does not await the round. Errors are left to the caller that does.
   */
  tryToFinish(): void {
    try {
      this.finish();
    } catch {
      // The caller that awaits the round gets this error from its own `finish`.
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
