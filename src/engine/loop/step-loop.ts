import { channels } from '../../base/channels.js';
import type { ConnectorOutput } from '../../scheduler/connector/connector.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { HealthWatch } from '../inspect/health.js';
import { drainAborts } from '../requests/abort.js';
import { publish, sweepStreams } from '../requests/publish.js';
import type { EngineState } from '../state/engine-state.js';
import { Step } from '../state/step.js';
import { applyAnswer, applyDrafts } from './apply-answer.js';
import { Dispatch } from './dispatch.js';
import { Notices } from './notices.js';

/** The outcome of one `Engine.step()`. */
export interface StepReport {
  /** Entries of the step that was planned; 0 = no step, or an empty plan. */
  readonly scheduledRequests: number;
  /** Tokens of the step that was planned; 0 = no step, or an empty plan. */
  readonly scheduledTokens: number;
  /** Whether the answer of the oldest step in flight was processed. */
  readonly answered: boolean;
  /** Requests that ended since the previous report, aborted ones included. */
  readonly ended: number;
  /** Steps in flight after this round. */
  readonly stepsInFlight: number;
  /**
   * `progress`: the round did something, so call again. The other states say why a round did
   * nothing. `waiting`: the executor has not answered yet. `stalled`: there is work, and none of it
   * can be scheduled. `idle`: there is no work.
   */
  readonly state: 'progress' | 'waiting' | 'stalled' | 'idle';
}

const NOTHING = { tokens: new Int32Array(0), counts: new Int32Array(0) };

/**
 * Runs the rounds of the engine, in vLLM's order: aborts, schedule, execute, aborts, reports of
 * transfers, update, publish. A round never waits for the executor: it submits at most one step,
 * and processes the oldest step only if that step was answered.
 */
export class StepLoop {
  readonly #e: EngineState;
  readonly #health: HealthWatch;
  readonly #dispatch: Dispatch;
  readonly #notices: Notices;
  /** Number of requests that had ended when the last report was made. */
  #endedBefore = 0;
  /** Whether the present round made progress that the counts of its report do not show. */
  #moved = false;
  /** Whether the workers were asked for reports in the present round. */
  #collected = false;

  /** @throws ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA if the tables on a GPU cannot be allocated; then the scheduler is disposed */
  constructor(e: EngineState, health: HealthWatch) {
    this.#e = e;
    this.#health = health;
    this.#dispatch = new Dispatch(e);
    this.#notices = new Notices(e);
  }

  /**
   * Runs a round: see `Engine.step`. Callbacks inside it may not step the engine.
   * @param applies whether the round may apply the answer of the oldest step; otherwise it only
   * submits work to the executor
   * @throws the error of the clock, with nothing changed
   * @throws ERR_BLOCKSTEP_EXECUTOR_HUNG, ERR_BLOCKSTEP_INVARIANT when the round broke the engine
   */
  step(applies = true): StepReport {
    const e = this.#e;
    e.checkIdle();
    e.busy = true;
    try {
      const plan = this.begin() ? e.scheduler.schedule() : null;
      const report = this.end(plan, applies);
      e.checkWhole();
      return report;
    } catch (error) {
      throw e.judge(error, true);
    } finally {
      e.busy = false;
    }
  }

  /** See `Engine.stepAsync`. */
  stepAsync(): Promise<StepReport> {
    return new Promise((resolve) => resolve(this.step()));
  }

  /** Begins a round: everything before the plan. @returns whether a plan is to be made */
  protected begin(): boolean {
    const e = this.#e;
    this.#health.checkExecutor();
    e.rounds++;
    this.#collected = false;
    this.#moved = drainAborts(e);
    return this.#canSchedule();
  }

  /**
   * Ends a round: everything after the plan. @param plan null = no plan. @param applies whether an
   * answer may be applied
   */
  protected end(plan: Plan | null, applies: boolean): StepReport {
    const e = this.#e;
    // Workers are asked for reports once per round. A round that applies an answer asks them then,
    // because that step's loads need a verdict.
    const willApply = applies && this.#hasAnswer();
    if (plan !== null) this.#planned(plan, willApply);
    const answered = applies && this.#hasAnswer();
    if (answered) {
      drainAborts(e);
      this.#applyOldest(e.flight[0]);
    }
    if (e.workers !== null) this.#handOverReports();
    this.#notices.tell();
    return this.#report(plan, answered);
  }

  /** Whether the oldest step was answered, or failed. */
  #hasAnswer(): boolean {
    const { flight } = this.#e;
    return flight.length > 0 && flight[0].isSettled;
  }

  #report(plan: Plan | null, answered: boolean): StepReport {
    const { numEnded } = this.#e.streams;
    const ended = numEnded - this.#endedBefore;
    this.#endedBefore = numEnded;
    const stepsInFlight = this.#e.flight.length;
    const scheduledRequests = plan?.numRequests ?? 0;
    const scheduledTokens = plan?.totalTokens ?? 0;
    const progress = answered || this.#moved || scheduledTokens + ended > 0;
    const state = progress ? 'progress' : this.#whyNot();
    return { scheduledRequests, scheduledTokens, answered, ended, stepsInFlight, state };
  }

  #canSchedule(): boolean {
    const { flight, scheduler } = this.#e;
    const inFlight = flight.length;
    if (inFlight >= scheduler.config.pipelineDepth) return false;
    // Steps are executed in order, so no step can be executed after one that is kept back.
    if (inFlight > 0 && flight[inFlight - 1].state === 'kept back') return false;
    if (scheduler.nextDeadline !== Number.POSITIVE_INFINITY && scheduler.nextDeadline <= this.#e.now())
      return true;
    // Without unfinished requests, a plan only reports ends. While steps are in flight, their
    // updates report these ends.
    return scheduler.numUnfinished > 0 || (inFlight === 0 && this.#e.needsPlan());
  }

  #planned(plan: Plan, willApply: boolean): void {
    const { lastStep } = this.#e;
    lastStep.totalTokens = plan.totalTokens;
    lastStep.preempted = plan.preempted.length;
    this.#e.workers?.planned(plan);
    this.#notices.planned(plan);
    if (plan.totalTokens > 0) this.#submit(plan);
    else this.#applyEmpty(plan, !willApply);
  }

  #submit(plan: Plan): void {
    const e = this.#e;
    this.#health.scheduled();
    const step = new Step(plan);
    this.#dispatch.gather(step);
    this.#notices.addTo(plan);
    e.flight.push(step);
    // A step waits for those in flight if its grammars need their tokens, or if they still use its
    // blocks.
    const waits = plan.pendingStructuredOutputTokens || e.workers?.mustWait(plan) === true;
    if (!waits || e.flight.length === 1) this.#dispatch.execute(step);
    else this.#dispatch.keepBack(step);
  }

  /**
   * Applies a plan with nothing to execute. Its ends and preemptions are kept for the next plan
   * that the executor receives. The clients of requests that ended while the plan was made are
   * notified now.
   * @param collects whether the workers are asked for reports with this plan
   */
  #applyEmpty(plan: Plan, collects: boolean): void {
    const e = this.#e;
    if (this.#notices.keep(plan)) this.#moved = true;
    if (e.flight.length === 0) this.#health.scheduledNothing();
    e.workers?.begin(plan, e.flight.length === 0);
    if (e.flight.length === 0) e.workers?.settle(plan.step);
    publish(e, e.scheduler.update(plan, NOTHING, collects ? this.#collect() : null));
    e.workers?.end(plan);
  }

  #applyOldest(step: Step): void {
    const e = this.#e;
    e.workers?.settle(step.number);
    const collected = this.#collect();
    const reports = e.workers === null ? null : e.workers.withVerdicts(step.number, collected);
    const { outputs, extras, failureOf } = applyAnswer(e, step, reports);
    e.workers?.end(step.plan);
    e.flight.shift();
    const failed = step.state === 'failed';
    const latencyMs = step.answeredAt - step.submittedAt;
    e.counters.steps++;
    if (failed) e.counters.failedSteps++;
    e.stepTimes.record(latencyMs);
    this.#health.answered(failed ? step.answer : undefined, failed);
    publish(e, outputs, failureOf, extras);
    if (!failed) applyDrafts(e, step);
    if (e.flight.length > 0 && e.flight[0].state === 'kept back') this.#dispatch.execute(e.flight[0]);
    if (channels.engineStep.hasSubscribers) {
      const { numRequests, totalTokens } = step.plan;
      const engine = e.number;
      channels.engineStep.publish({ engine, step: step.number, numRequests, totalTokens, latencyMs, failed });
    }
  }

  /** The reports of the workers, asked once per round; null if there are none. */
  #collect(): ConnectorOutput | null {
    if (this.#collected) return null;
    this.#collected = true;
    const output = this.#e.workers?.collect() ?? null;
    if (output !== null) this.#moved = true;
    return output;
  }

  /** Passes the workers' reports to the scheduler, in a round that has not asked them yet. */
  #handOverReports(): void {
    const output = this.#collect();
    if (output !== null) this.#e.scheduler.updateTransfers(output);
  }

  #whyNot(): StepReport['state'] {
    const e = this.#e;
    if (e.flight.length > 0) return 'waiting';
    sweepStreams(e);
    return e.hasWork() ? 'stalled' : 'idle';
  }
}
