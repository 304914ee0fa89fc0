import { enterCallee, leaveCallee } from '../../base/callee.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import { type TakenAnswer, takeAnswer } from '../executor/answer.js';
import type { PlanTables } from '../executor/executor-place.js';
import { keepTables } from '../executor/kept-tables.js';
import type { EngineState } from './engine-state.js';

/** A step that was submitted to the executor and not taken yet. */
export class Step {
  readonly plan: Plan;
  readonly number: number;
  /** What the scheduler's plan told of. Those of empty plans before it stand in the executor's plan too; workers know them. */
  readonly finishedHandles: readonly number[];
  /** When it was executed, by the engine's clock; -1 while it is kept back. */
  submittedAt = -1;
  /**
   * `kept back`: not executed yet, because its grammars must know first what the steps before it bring, or because it
   * takes blocks that these still use.
   */
  state: 'kept back' | 'pending' | 'answered' | 'failed' | 'given up' = 'kept back';
  /** What was answered, or, if it failed, thrown. */
  answer: unknown = undefined;
  answeredAt = -1;
  #taken: TakenAnswer | null = null;
  #tables: PlanTables | null = null;
  #gatherError: { cause: unknown } | null = null;
  readonly #engine: EngineState;

  constructor(engine: EngineState, plan: Plan) {
    this.#engine = engine;
    this.plan = plan;
    this.number = plan.step;
    this.finishedHandles = plan.finishedHandles;
    this.#gather();
  }

  /** It is executed later: what ends until then must not be missing in its tables. */
  keepBack(): void {
    const { core } = this.#engine.scheduler;
    if (this.#tables !== null) this.#tables = keepTables(this.plan, this.#tables, core);
  }

  /** Has the executor compute the plan. Never throws: what it throws is its answer. */
  execute(): void {
    this.state = 'pending';
    this.submittedAt = this.#engine.now();
    this.#engine.workers?.begin(this.plan, true, this.finishedHandles);
    try {
      if (this.#gatherError !== null) throw this.#gatherError.cause;
      const answer = this.#execute();
      const then = thenOf(answer);
      if (then === null) this.#settle('answered', answer);
      else this.#follow(answer, then);
    } catch (error) {
      this.#settle('failed', error);
    }
  }

  #execute(): unknown {
    const { views, config } = this.#engine;
    const view = views.of(this.plan);
    const before = enterCallee('executor.execute');
    try {
      return config.execute(view, this.#tables);
    } finally {
      leaveCallee(before);
    }
  }

  /** Whether there is something to take. */
  get isSettled(): boolean {
    return this.state === 'answered' || this.state === 'failed';
  }

  /** Nobody waits for it any more: its answer will be late. */
  giveUp(): void {
    this.state = 'given up';
    this.answer = undefined;
  }

  /** The answer's arrays, read once; null if it failed, which it has too if its answer cannot be read. */
  take(): TakenAnswer | null {
    if (this.#taken !== null || this.state === 'failed') return this.#taken;
    try {
      this.#taken = takeAnswer(this.plan, this.answer);
    } catch (error) {
      this.fail(error);
      this.#engine.countWrongAnswer(this.number, error);
    }
    return this.#taken;
  }

  /** The answer turned out to be none. */
  fail(error: unknown): void {
    this.#taken = null;
    this.state = 'failed';
    this.answer = error;
  }

  /** Right after its schedule, also if it is kept back: later its rows may be gone. What fails here fails the step. */
  #gather(): void {
    try {
      this.#tables = this.#engine.tables.gather(this.plan);
    } catch (cause) {
      this.#gatherError = { cause };
    }
  }

  /** A promise of our own, since one of theirs may settle twice, call back at once, or throw while it is asked. */
  #follow(answer: unknown, then: (...callbacks: unknown[]) => unknown): void {
    const promise = new Promise((resolve, reject) => {
      Reflect.apply(then, answer, [resolve, reject]);
    });
    promise.then(
      (value) => this.#settle('answered', value),
      (error: unknown) => this.#settle('failed', error),
    );
  }

  #settle(state: 'answered' | 'failed', answer: unknown): void {
    const engine = this.#engine;
    if (this.state !== 'pending') {
      engine.counters.lateAnswers++;
      return;
    }
    this.state = state;
    this.answer = answer;
    this.answeredAt = engine.now();
    engine.answeredAt = this.answeredAt;
    engine.poke();
  }
}

function thenOf(answer: unknown): ((...callbacks: unknown[]) => unknown) | null {
  if (typeof answer !== 'object' && typeof answer !== 'function') return null;
  const then: unknown = (answer as { then?: unknown } | null)?.then;
  return typeof then === 'function' ? (then as (...callbacks: unknown[]) => unknown) : null;
}
