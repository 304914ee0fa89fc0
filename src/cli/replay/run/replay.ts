import { setImmediate } from 'node:timers/promises';
import { BlockstepError } from '../../../base/errors.js';
import type { CostModel } from '../../../executors/cost-model/cost-model.js';
import { CostModelExecutor, type TimedTokens } from '../../../executors/cost-model/cost-model-executor.js';
import { aloneMs } from '../../../executors/cost-model/step-cost.js';
import type { StepCost } from '../../../executors/cost-model/step-features.js';
import type { SchedulerConfig } from '../../../scheduler/options/options.js';
import { optionsAgain } from '../../../scheduler/options/single-rules.js';
import type { Plan } from '../../../scheduler/plan/plan.js';
import { Scheduler } from '../../../scheduler/scheduler.js';
import type { Workload } from '../../../workload/workload.js';
import { AbortPlan } from './abort-plan.js';
import { Measurements } from './measurements.js';
import type { ReplayObserver } from './replay-observer.js';

/** How a workload is replayed. */
export interface ReplayOptions {
  /** The scheduler's options. Its clock is the replay's virtual time. */
  scheduler: Omit<SchedulerConfig, 'now'>;
  /** The cost model of a step. */
  cost: StepCost;
  /** The cost model in a report: figures, or the name of a profile. */
  model: CostModel | string;
  /** Probability that a draft token is right. */
  acceptanceRate: number;
  /** Requests arrive this many times as fast as in the workload. */
  speedUp: number;
  /** Fraction of the requests that are aborted. */
  abortRate: number;
  seed: number;
}

/** A plan in flight. */
interface Step {
  plan: Plan;
  result: TimedTokens;
  /** Real time that schedule() took. */
  scheduleMs: number;
}

/**
 * After this much real time the loop yields to the event loop, for signals and the progress bar.
 */
const YIELD_MS = 50;
/**
 * Empty plans in a row, while requests wait, after which the replay counts as stalled. A preemption
 * alone makes one empty plan.
 */
const MAX_EMPTY_STEPS = 16;
/** Codes with which the scheduler refuses one request. Any other error of `add` ends the replay. */
const REFUSALS: readonly string[] = ['ERR_BLOCKSTEP_UNFIT', 'ERR_BLOCKSTEP_LIMIT'];

/**
 * Runs a workload through a scheduler in virtual time. The clock moves to the end of a step when
 * its result is needed, and to the next arrival when there is nothing to do. Everything but the
 * measured real times follows from the options.
 *
 * The scheduler gets no more waiting requests than one step could admit. Later arrivals wait in the
 * replay, as numbers without a prompt. So memory does not grow with the queue, and under FCFS no
 * decision changes.
 */
export class Replay {
  readonly measurements = new Measurements();
  readonly scheduler: Scheduler;
  readonly #workload: Workload;
  readonly #options: ReplayOptions;
  readonly #executor: CostModelExecutor;
  readonly #aborts: AbortPlan;
  /** Steps in flight, the oldest first; at most `pipelineDepth`. */
  readonly #inFlight: Step[] = [];
  #observer: ReplayObserver | null = null;
  #nowMs = 0;
  /** The next request for the scheduler. */
  #next = 0;
  /** The first request whose arrival the observer does not know yet. */
  #arrived = 0;
  #emptySteps = 0;

  /** @throws ERR_BLOCKSTEP_BAD_ARG as `new Scheduler` does */
  constructor(workload: Workload, options: ReplayOptions) {
    const now = (): number => this.#nowMs;
    const { scheduler, cost, seed, acceptanceRate } = options;
    this.#workload = workload;
    this.#options = options;
    this.#aborts = new AbortPlan(options.abortRate, seed);
    const { log, placement, connector: _none, borrower: _nobody, ...rest } = scheduler;
    this.scheduler = new Scheduler({
      ...optionsAgain(rest),
      ...placement,
      now,
      ...(log !== null && { log }),
    });
    this.#executor = new CostModelExecutor({
      model: cost,
      now,
      seed,
      acceptanceRate,
      maxEntries: scheduler.maxNumSeqs,
      maxDrafts: scheduler.numSpeculativeTokens,
      stepsInFlight: scheduler.pipelineDepth,
    });
  }

  /** Virtual time since the first arrival, in milliseconds. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Virtual time at which the last request arrives. */
  get lastArrivalMs(): number {
    return this.#arrivalMs(this.#workload.length - 1);
  }

  /** Sets the observer of later events. */
  observe(observer: ReplayObserver): void {
    this.#observer = observer;
  }

  /**
   * Replays until every request has ended, or until the signal is aborted. Calls `onProgress` about
   * 20 times per second.
   * @returns whether every request has ended
   */
  async run(signal?: AbortSignal, onProgress?: () => void): Promise<boolean> {
    let yieldAt = performance.now() + YIELD_MS;
    while (this.#advance()) {
      if (performance.now() < yieldAt) continue;
      onProgress?.();
      await setImmediate();
      if (signal?.aborted) return false;
      yieldAt = performance.now() + YIELD_MS;
    }
    onProgress?.();
    return true;
  }

  /** Frees the scheduler. */
  dispose(): void {
    this.scheduler.dispose();
  }

  /**
   * One round, as in vLLM's `step_with_batch_queue`. Schedule. If the plan is not empty and more
   * steps may be in flight, end the round. Otherwise wait for the oldest step and update it.
   * @returns false when the replay is finished
   */
  #advance(): boolean {
    this.#addArrivals();
    this.#abortDue();
    if (this.scheduler.hasWork()) {
      const plan = this.#schedule();
      if (plan.totalTokens > 0 && this.#inFlight.length < this.#options.scheduler.pipelineDepth) return true;
    } else if (this.#inFlight.length === 0) {
      if (this.#next === this.#workload.length) return false;
      this.#nowMs = Math.max(this.#nowMs, this.#arrivalMs(this.#next));
      return true;
    }
    this.#update();
    return true;
  }

  #schedule(): Plan {
    const start = performance.now();
    const plan = this.scheduler.schedule();
    const scheduleMs = performance.now() - start;
    this.#observer?.planned(plan, this.#nowMs, this.#queuedOutside());
    // An empty plan carries only the ids of requests that ended. With other plans in flight, these
    // ids come with their updates.
    if (plan.totalTokens > 0 || this.#inFlight.length === 0) {
      this.#inFlight.push({ plan, result: this.#executor.execute(plan), scheduleMs });
    }
    this.#emptySteps = plan.totalTokens > 0 ? 0 : this.#emptySteps + 1;
    if (this.#emptySteps > MAX_EMPTY_STEPS && this.scheduler.numUnfinished > 0) this.#stall();
    return plan;
  }

  /** Waits, in virtual time, for the oldest step and hands its tokens to the scheduler. */
  #update(): void {
    const { plan, result, scheduleMs } = this.#inFlight.shift()!;
    this.#nowMs = Math.max(this.#nowMs, result.finishMs);
    this.#abortDue();
    const start = performance.now();
    const outputs = this.scheduler.update(plan, result);
    const updateMs = performance.now() - start;
    if (plan.totalTokens > 0) {
      this.measurements.steps++;
      const stepUs = 1000 * (scheduleMs + updateMs);
      this.measurements.stepUs.record(stepUs);
      this.#observer?.updated(this.#nowMs, stepUs, sum(outputs.tokenCounts, outputs.length));
    }
    this.measurements.deliver(outputs, this.#nowMs, (request) => {
      this.#observer?.finished(this.#nowMs, this.#nowMs - request.arrivalTime);
      const alone = aloneMs(this.#options.cost, request.numPromptTokens, request.numOutputTokens);
      this.#aborts.observe(this.#nowMs - request.arrivalTime, alone);
    });
    // With several steps in flight drafts stay on the device. The scheduler reserves room for them
    // by itself.
    const { numSpeculativeTokens, pipelineDepth } = this.#options.scheduler;
    if (numSpeculativeTokens > 0 && pipelineDepth === 1) {
      this.scheduler.updateDraftTokens(plan, this.#executor.draft(plan));
    }
  }

  #arrivalMs(index: number): number {
    return this.#workload.arrivalMs[index] / this.#options.speedUp;
  }

  #addArrivals(): void {
    const room = this.#options.scheduler.maxNumSeqs;
    while (this.#next < this.#workload.length && this.scheduler.numWaiting < room) {
      if (this.#arrivalMs(this.#next) > this.#nowMs) return;
      this.#add(this.#next++);
    }
  }

  /** Requests that have arrived and wait for room in the scheduler's queue. */
  #queuedOutside(): number {
    const { length } = this.#workload;
    while (this.#arrived < length && this.#arrivalMs(this.#arrived) <= this.#nowMs) this.#arrived++;
    return this.#arrived - this.#next;
  }

  #add(index: number): void {
    const arrivalTime = this.#arrivalMs(index);
    const inputTokens = this.#workload.inputTokens[index];
    const maxTokens = this.#workload.outputTokens[index];
    const alone = aloneMs(this.#options.cost, inputTokens, maxTokens);
    const abortAt = this.#aborts.draw(index, arrivalTime, alone);
    if (abortAt !== null && abortAt <= this.#nowMs) {
      // The request is aborted while it waits outside the scheduler.
      this.measurements.aborted++;
      return;
    }
    try {
      const prompt = this.#workload.prompt(index);
      this.scheduler.add({ id: requestId(index), prompt, maxTokens, ignoreEos: true, arrivalTime });
    } catch (error) {
      if (!(error instanceof BlockstepError) || !REFUSALS.includes(error.code)) throw error;
      this.measurements.refuse(error.code);
      return;
    }
    this.measurements.promptTokens += inputTokens;
    if (abortAt !== null) this.#aborts.push(abortAt, index);
  }

  #abortDue(): void {
    for (let index = this.#aborts.pop(this.#nowMs); index >= 0; index = this.#aborts.pop(this.#nowMs)) {
      const request = this.scheduler.get(requestId(index));
      if (request === undefined || request.isFinished) this.measurements.abortsTooLate++;
      else this.measurements.aborted += this.scheduler.abort(request.id).length;
    }
  }

  /**
   * No request could be scheduled for many steps. Moves time to the next arrival; if there is none,
   * the scheduler is at fault.
   */
  #stall(): void {
    this.#emptySteps = 0;
    if (this.#next < this.#workload.length && this.#arrivalMs(this.#next) > this.#nowMs) {
      this.#nowMs = this.#arrivalMs(this.#next);
      return;
    }
    const { numRunning, numWaiting, numSkipped } = this.scheduler;
    const queues = `${numRunning} running, ${numWaiting} waiting, ${numSkipped} skipped`;
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', `nothing can be scheduled any more: ${queues}`);
  }
}

function sum(column: Int32Array, length: number): number {
  let total = 0;
  for (let i = 0; i < length; i++) total += column[i];
  return total;
}

function requestId(index: number): string {
  return `r${index}`;
}
