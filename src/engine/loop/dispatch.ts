import { enterCallee, leaveCallee } from '../../base/foreign/callee.js';
import { ExecutorTables } from '../executor/executor-tables.js';
import { keepTables } from '../executor/kept-tables.js';
import { PlanViews } from '../executor/plan-view.js';
import type { EngineState } from '../state/engine-state.js';
import type { Step } from '../state/step.js';

/** Submits steps to the executor: gathers their tables, calls `execute`, and notes the answers. */
export class Dispatch {
  readonly #e: EngineState;
  readonly #tables: ExecutorTables;
  readonly #views = new PlanViews();

  /** @throws ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA if the tables on a GPU cannot be allocated; then the scheduler is disposed */
  constructor(e: EngineState) {
    this.#e = e;
    this.#tables = new ExecutorTables(e.scheduler, e.config);
  }

  /**
   * Gathers the tables of a step. Call this right after the plan was made, also for a step that is
   * kept back. Its rows of the KV table may be freed later. A failure here fails the step when it
   * is executed.
   */
  gather(step: Step): void {
    try {
      step.tables = this.#tables.gather(step.plan);
    } catch (cause) {
      step.gatherFailure = { cause };
    }
  }

  /** Prepares a step for later execution: the tokens of requests that end meanwhile stay readable in its tables. */
  keepBack(step: Step): void {
    if (step.tables !== null) step.tables = keepTables(step.plan, step.tables, this.#e.scheduler.core);
  }

  /** Submits the step to the executor. Never throws: an error of the executor fails the step. */
  execute(step: Step): void {
    step.state = 'pending';
    step.submittedAt = this.#e.now();
    this.#e.workers?.begin(step.plan, true, step.finishedHandles);
    try {
      if (step.gatherFailure !== null) throw step.gatherFailure.cause;
      const answer = this.#call(step);
      const then = thenOf(answer);
      if (then === null) this.#settle(step, 'answered', answer);
      else this.#follow(step, answer, then);
    } catch (error) {
      this.#settle(step, 'failed', error);
    }
  }

  #call(step: Step): unknown {
    const view = this.#views.of(step.plan);
    const before = enterCallee('executor.execute');
    try {
      return this.#e.config.execute(view, step.tables);
    } finally {
      leaveCallee(before);
    }
  }

  /**
   * Awaits an answer by a promise of the engine's own. The executor's thenable may settle twice,
   * call back at once, or throw in `then`.
   */
  #follow(step: Step, answer: unknown, then: (...callbacks: unknown[]) => unknown): void {
    const promise = new Promise((resolve, reject) => {
      Reflect.apply(then, answer, [resolve, reject]);
    });
    promise.then(
      (value) => this.#settle(step, 'answered', value),
      (error: unknown) => this.#settle(step, 'failed', error),
    );
  }

  #settle(step: Step, state: 'answered' | 'failed', answer: unknown): void {
    const e = this.#e;
    if (step.state !== 'pending') {
      e.counters.lateAnswers++;
      return;
    }
    step.state = state;
    step.answer = answer;
    step.answeredAt = e.now();
    e.answeredAt = step.answeredAt;
    e.poke();
  }
}

/** The method `then` of an answer; null if the answer is not a promise. */
function thenOf(answer: unknown): ((...callbacks: unknown[]) => unknown) | null {
  if (typeof answer !== 'object' && typeof answer !== 'function') return null;
  const then: unknown = (answer as { then?: unknown } | null)?.then;
  return typeof then === 'function' ? (then as (...callbacks: unknown[]) => unknown) : null;
}
