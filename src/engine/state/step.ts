import type { Plan } from '../../scheduler/plan/plan.js';
import type { TakenAnswer } from '../executor/answer.js';
import type { PlanTables } from '../executor/executor-tables.js';

/**
 * One step in flight: it was submitted, and its answer was not taken yet. Holds what is known of it; `loop/dispatch.ts` has
 * it executed, `loop/apply-answer.ts` takes its answer.
 */
export class Step {
  readonly plan: Plan;
  readonly number: number;
  /**
   * Handles of the requests that finished, as the scheduler's plan told of them. The executor's plan names those of earlier
   * empty plans too; workers know of these already.
   */
  readonly finishedHandles: readonly number[];
  /** When the step was executed, by the engine's clock; -1 while it is kept back. */
  submittedAt = -1;
  /**
   * `kept back`: not executed yet. Either its grammars must know first what the steps before it bring, or it takes blocks
   * that these steps still use.
   */
  state: 'kept back' | 'pending' | 'answered' | 'failed' | 'given up' = 'kept back';
  /** What the executor answered, or, of a failed step, what it threw. */
  answer: unknown = undefined;
  answeredAt = -1;
  /** The tables of its plan; null for an executor that uses none. */
  tables: PlanTables | null = null;
  /** Why the tables could not be gathered, which fails the step when it is executed; null = they were. */
  gatherFailure: { readonly cause: unknown } | null = null;
  /** The answer, once it was read and found to be one. */
  taken: TakenAnswer | null = null;

  constructor(plan: Plan) {
    this.plan = plan;
    this.number = plan.step;
    this.finishedHandles = plan.finishedHandles;
  }

  /** Whether its answer, or its failure, can be taken. */
  get isSettled(): boolean {
    return this.state === 'answered' || this.state === 'failed';
  }

  /** Nobody waits for the step any more: an answer to it will be late. */
  giveUp(): void {
    this.state = 'given up';
    this.answer = undefined;
  }

  /** The step failed, or its answer turned out to be none. */
  fail(error: unknown): void {
    this.taken = null;
    this.state = 'failed';
    this.answer = error;
  }
}
