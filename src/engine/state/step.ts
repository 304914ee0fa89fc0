import type { Plan } from '../../scheduler/plan/plan.js';
import type { ParsedAnswer } from '../executor/answer.js';
import type { PlanTables } from '../executor/executor-tables.js';

/**
 * One step in flight: planned, and its answer not applied yet. `loop/dispatch.ts` has the step executed, `loop/apply-answer.ts` takes its
 * answer.
 */
export class Step {
  readonly plan: Plan;
  readonly number: number;
  /**
   * Handles of finished requests in the scheduler's plan of this step. The plan for the executor
   * also has the ends of earlier empty plans, which the workers know already.
   */
  readonly finishedHandles: readonly number[];
  /** Time of the step's submission, in milliseconds of the engine's clock; -1 while the step is kept back. */
  submittedAt = -1;
  /**
   * `kept back`: not executed yet. Either the step's grammars need the tokens of earlier steps first, or the step takes blocks that
   * earlier steps still use. `pending`: with the executor. `given up`: the engine broke or was disposed.
   */
  state: 'kept back' | 'pending' | 'answered' | 'failed' | 'given up' = 'kept back';
  /** The executor's answer; for a failed step, its error. */
  answer: unknown = undefined;
  /** Time of the answer, in milliseconds of the engine's clock; -1 before. */
  answeredAt = -1;
  /** The tables of the plan; null for an executor that uses none. */
  tables: PlanTables | null = null;
  /** The error of gathering the tables, which fails the step when it is executed; null = no error. */
  gatherFailure: { readonly cause: unknown } | null = null;
  /** The answer, after its form was checked; null before, and for a failed step. */
  parsed: ParsedAnswer | null = null;

  constructor(plan: Plan) {
    this.plan = plan;
    this.number = plan.step;
    this.finishedHandles = plan.finishedHandles;
  }

  /** Whether the step's answer, or its failure, can be processed. */
  get isSettled(): boolean {
    return this.state === 'answered' || this.state === 'failed';
  }

  /** Abandons the step: a later answer is only counted (`lateAnswers`). */
  giveUp(): void {
    this.state = 'given up';
    this.answer = undefined;
  }

  /** Marks the step as failed, also when its answer proved to be unreadable. */
  fail(error: unknown): void {
    this.parsed = null;
    this.state = 'failed';
    this.answer = error;
  }
}
