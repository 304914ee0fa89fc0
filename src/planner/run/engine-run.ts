import { BlockstepError } from '../../base/errors.js';
import { ACCEPTANCE_RATE } from '../../executors/cost-model/cost-model.js';
import { CostModelExecutor, type TimedTokens } from '../../executors/cost-model/cost-model-executor.js';
import { checkMs } from '../../executors/cost-model/step-cost.js';
import { type StepCost, StepFeatures } from '../../executors/cost-model/step-features.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { StepOutputs } from '../../scheduler/plan/step-outputs.js';
import type { Request } from '../../scheduler/request/request.js';
import { Scheduler } from '../../scheduler/scheduler.js';
import type { Workload } from '../../workload/workload.js';

/** The input of a simulation. */
export interface EngineRunOptions {
  readonly workload: Workload;
  /** The requests of this engine, ascending; default: all. */
  readonly indices?: Int32Array;
  /** Requests arrive this many times as fast as in the workload. Default 1. */
  readonly speedUp?: number;
  readonly scheduler: Omit<SchedulerOptions, 'now'>;
  /**
   * Probability that a draft token is accepted, given that those before it were. Default 0.7. It
   * matters with `numSpeculativeTokens` only.
   */
  readonly acceptanceRate?: number;
  readonly cost: StepCost;
  /**
   * Says whether the scheduler learns of the next request before the next step. Default: once its
   * time of arrival is over. While nothing else is left to do, that time has to suffice.
   */
  readonly hasArrived?: (arrivalMs: number, nowMs: number) => boolean;
  /** Ends the run at this virtual time. Requests that have not ended by then are left out. */
  readonly untilMs?: number;
  /** Called with each step that computes something. The features are only valid during the call. */
  readonly onStep?: (features: Readonly<StepFeatures>, plan: Plan) => void;
}

/**
 * Times of the first and the last token of the requests of a run, by their index in the workload,
 * in virtual milliseconds; NaN: never.
 */
export interface RequestTimes {
  readonly firstMs: Float64Array;
  readonly lastMs: Float64Array;
}

/** A plan in flight. */
interface Step {
  plan: Plan;
  finishMs: number;
  /** Entries whose first token this step may generate. */
  first: Request[];
  /** The tokens, if drafts decide their number. */
  drafted: TimedTokens | null;
}

/** Exceeds the number of plans in flight. */
const STEPS = 4;
/** Empty plans in a row, while requests wait, after which a run counts as stalled. */
const MAX_EMPTY_STEPS = 16;
const REFUSALS: readonly string[] = ['ERR_BLOCKSTEP_UNFIT', 'ERR_BLOCKSTEP_LIMIT'];
/** The token of every text. It ends no text. */
const TOKEN = 1;

/**
 * Runs one engine in virtual time: the scheduler itself under a step cost, as `blockstep replay`
 * runs it, and nothing else. No figure depends on the simulating machine. Equal options give equal
 * times and an equal digest.
 */
export class EngineRun {
  readonly times: RequestTimes;
  readonly scheduler: Scheduler;
  steps = 0;
  /** Requests that the scheduler refused, because they can never fit. */
  refused = 0;
  preemptions = 0;
  /** The maximum number of requests that ran at once. */
  peakRunning = 0;
  readonly #options: EngineRunOptions;
  readonly #indices: Int32Array;
  readonly #maxNumSeqs: number;
  readonly #depth: number;
  readonly #features = new StepFeatures();
  readonly #tokens: Int32Array;
  readonly #ones: Int32Array;
  readonly #counts: Int32Array;
  readonly #outline: Int32Array;
  readonly #steps: Step[];
  /** Draws which drafts are accepted; null without drafts. */
  readonly #drafter: CostModelExecutor | null;
  readonly #inFlight: Step[] = [];
  #nextStep = 0;
  #nowMs = 0;
  #deviceFreeMs = 0;
  #next = 0;
  #emptySteps = 0;
  /** The plan made last, and the series of repeated steps that it belongs to; 0: none. */
  #last: Plan | null = null;
  #repeats = 0;

  /** @throws ERR_BLOCKSTEP_BAD_ARG as `new Scheduler` does */
  constructor(options: EngineRunOptions) {
    const { workload, scheduler } = options;
    this.#options = options;
    this.#indices = options.indices ?? Int32Array.from({ length: workload.length }, (_, i) => i);
    this.times = {
      firstMs: new Float64Array(workload.length).fill(Number.NaN),
      lastMs: new Float64Array(workload.length).fill(Number.NaN),
    };
    this.scheduler = new Scheduler({
      maxModelLen: workload.maxTotalTokens,
      hashSeed: 0n,
      ...scheduler,
      now: () => this.#nowMs,
    });
    this.#maxNumSeqs = scheduler.maxNumSeqs ?? 256;
    this.#depth = scheduler.pipelineDepth ?? 1;
    this.#tokens = new Int32Array(this.#maxNumSeqs).fill(TOKEN);
    this.#ones = new Int32Array(this.#maxNumSeqs).fill(1);
    this.#counts = new Int32Array(this.#maxNumSeqs);
    this.#outline = new Int32Array(workload.maxTotalTokens);
    this.#steps = Array.from({ length: STEPS }, () => ({
      plan: null as unknown as Plan,
      finishMs: 0,
      first: [],
      drafted: null,
    }));
    this.#drafter = this.#makeDrafter();
  }

  /** Virtual milliseconds since the first arrival of the workload. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /**
   * Runs until every request has ended, or `untilMs`.
   * @throws the errors of the cost; ERR_BLOCKSTEP_INVARIANT if it stalls
   */
  run(): void {
    while (this.advance());
  }

  /** One round, as in `Replay`, or several at once. @returns false when the run is finished */
  advance(): boolean {
    this.#addArrivals();
    if (this.#leap()) return this.#nowMs < (this.#options.untilMs ?? Number.POSITIVE_INFINITY);
    if (this.scheduler.hasWork()) {
      const plan = this.#schedule();
      if (plan.totalTokens > 0 && this.#inFlight.length < this.#depth) return true;
    } else if (this.#inFlight.length === 0) {
      if (this.#next === this.#indices.length) return false;
      this.#nowMs = Math.max(this.#nowMs, this.#arrivalMs(this.#next));
      return true;
    }
    this.#update();
    return this.#nowMs < (this.#options.untilMs ?? Number.POSITIVE_INFINITY);
  }

  /** Frees the scheduler. */
  dispose(): void {
    this.scheduler.dispose();
  }

  #schedule(): Plan {
    const plan = this.scheduler.schedule();
    this.#last = plan;
    this.preemptions += plan.preempted.length;
    this.peakRunning = Math.max(this.peakRunning, this.scheduler.numRunning);
    if (plan.totalTokens > 0 || this.#inFlight.length === 0) this.#execute(plan);
    this.#emptySteps = plan.totalTokens > 0 ? 0 : this.#emptySteps + 1;
    if (this.#emptySteps > MAX_EMPTY_STEPS && this.scheduler.numUnfinished > 0) this.#stall();
    return plan;
  }

  /**
   * Makes all rounds up to the next event at once, if there are several. Until then each step is
   * the last one with one more token of context.
   * @returns false: nothing was done
   */
  #leap(): boolean {
    const { onStep, hasArrived, untilMs = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#last === null || this.#last.repeats === 0) return false;
    if (onStep !== undefined || hasArrived !== undefined) return false;
    const most = this.scheduler.sureSteps(this.#last);
    if (most < 2) return false;
    const flight = this.#inFlight;
    for (const { first } of flight) if (first.length > 0) return false;
    const features = this.#features;
    const eventMs = Math.min(untilMs, this.#nextArrivalMs());
    let rounds = 0;
    do {
      features.decodeContextTokens += features.decodes;
      features.largestDecodeContext++;
      let finishMs = this.#finishMs(features);
      // The oldest step in flight ends, and each of the others takes its place.
      for (let i = flight.length - 1; i >= 0; i--) {
        const earlierMs = flight[i].finishMs;
        flight[i].finishMs = finishMs;
        finishMs = earlierMs;
      }
      this.#nowMs = Math.max(this.#nowMs, finishMs);
      rounds++;
    } while (rounds < most && this.#nowMs < eventMs);
    this.steps += rounds;
    let plan = this.scheduler.scheduleMany(rounds);
    if (plan === null)
      throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', 'a step that was sure could not be made');
    this.#last = plan;
    for (let i = flight.length - 1; i >= 0; i--) {
      const earlier: Plan = flight[i].plan;
      flight[i].plan = plan;
      plan = earlier;
    }
    this.scheduler.update(plan, { tokens: this.#tokens, counts: this.#ones });
    return true;
  }

  /**
   * The time at which the next request arrives at the scheduler; infinite while it has no room for
   * one.
   */
  #nextArrivalMs(): number {
    const hasRoom = this.#next < this.#indices.length && this.scheduler.numWaiting < this.#maxNumSeqs;
    return hasRoom ? this.#arrivalMs(this.#next) : Number.POSITIVE_INFINITY;
  }

  #execute(plan: Plan): void {
    const step = this.#steps[this.#nextStep];
    this.#nextStep = (this.#nextStep + 1) % STEPS;
    step.plan = plan;
    if (step.first.length > 0) step.first.length = 0;
    if (this.#drafter !== null) {
      this.#executeDrafts(this.#drafter, plan, step);
      return;
    }
    this.#weigh(plan, step);
    if (plan.totalTokens === 0) step.finishMs = Math.max(this.#nowMs, this.#deviceFreeMs);
    else {
      this.#options.onStep?.(this.#features, plan);
      step.finishMs = this.#finishMs(this.#features);
      this.steps++;
    }
    this.#inFlight.push(step);
  }

  /** When a step that is submitted now will end. The next one can begin no earlier. */
  #finishMs(features: Readonly<StepFeatures>): number {
    const { cost } = this.#options;
    const hostMs = checkMs('hostMs', cost.hostMs(features));
    const stepMs = checkMs('stepMs', cost.stepMs(features));
    this.#deviceFreeMs = Math.max(this.#nowMs + hostMs, this.#deviceFreeMs) + stepMs;
    return this.#deviceFreeMs;
  }

  /** As `execute`, where the number of tokens of each entry depends on the accepted drafts. */
  #executeDrafts(drafter: CostModelExecutor, plan: Plan, step: Step): void {
    const drafted = drafter.execute(plan);
    step.drafted = drafted;
    step.finishMs = drafted.finishMs;
    for (let i = 0; i < plan.numRequests; i++) {
      if (drafted.firsts[i] === 0 && drafted.counts[i] > 0) step.first.push(plan.requests[i]);
    }
    if (plan.totalTokens > 0) this.steps++;
    this.#inFlight.push(step);
  }

  #makeDrafter(): CostModelExecutor | null {
    const { scheduler, cost, onStep, acceptanceRate = ACCEPTANCE_RATE } = this.#options;
    const { numSpeculativeTokens = 0 } = scheduler;
    if (numSpeculativeTokens === 0) return null;
    return new CostModelExecutor({
      model: {
        hostMs: (features) => {
          onStep?.(features, this.#steps[(this.#nextStep + STEPS - 1) % STEPS].plan);
          return cost.hostMs(features);
        },
        stepMs: (features) => cost.stepMs(features),
      },
      now: () => this.#nowMs,
      seed: 0,
      acceptanceRate,
      maxEntries: this.#maxNumSeqs,
      maxDrafts: numSpeculativeTokens,
      stepsInFlight: STEPS,
    });
  }

  /**
   * Finds the features of a plan. A repeated step equals the previous step with one more token of
   * context.
   */
  #weigh(plan: Plan, step: Step): void {
    const features = this.#features;
    if (plan.repeats !== 0 && plan.repeats === this.#repeats) {
      features.decodeContextTokens += features.decodes;
      features.largestDecodeContext++;
      return;
    }
    this.#repeats = plan.repeats;
    features.begin();
    for (let i = 0; i < plan.numRequests; i++) {
      const computed = plan.numComputedTokens[i];
      const scheduled = plan.numScheduledTokens[i];
      const request = plan.requests[i];
      const brings = plan.maxOutputTokens[i] > 0;
      if (brings && scheduled === 1 && computed >= request.numPromptTokens) {
        features.addDecode(1, computed + 1);
      } else {
        features.addPrefill(scheduled, computed);
        if (brings) step.first.push(request);
      }
    }
    features.end();
  }

  #update(): void {
    const step = this.#inFlight.shift()!;
    const { plan, first, drafted } = step;
    this.#nowMs = Math.max(this.#nowMs, step.finishMs);
    const result = drafted ?? { tokens: this.#tokens, counts: this.#countsOf(plan) };
    const outputs = this.scheduler.update(plan, result);
    for (const request of first) {
      const index = Number(request.id);
      if (request.numOutputTokens > 0 && Number.isNaN(this.times.firstMs[index])) {
        this.times.firstMs[index] = this.#nowMs;
      }
    }
    this.#noteEnds(outputs);
    // With several steps in flight drafts stay on the device.
    if (this.#drafter !== null && this.#depth === 1)
      this.scheduler.updateDraftTokens(plan, this.#drafter.draft(plan));
  }

  /** Number of tokens of each entry. In a repeated step each entry has one. */
  #countsOf(plan: Plan): Int32Array {
    if (plan.repeats !== 0) return this.#ones;
    this.#counts.set(plan.maxOutputTokens.subarray(0, plan.numRequests));
    return this.#counts;
  }

  #noteEnds({ length, finishReasons, requests }: StepOutputs): void {
    for (let i = 0; i < length; i++) {
      if (finishReasons[i] !== 0) this.times.lastMs[Number(requests[i].id)] = this.#nowMs;
    }
  }

  #arrivalMs(at: number): number {
    return this.#options.workload.arrivalMs[this.#indices[at]] / (this.#options.speedUp ?? 1);
  }

  /**
   * Adds arrived requests to the scheduler, but no more than one step could admit. Under FCFS this
   * changes no decision.
   */
  #addArrivals(): void {
    const { workload } = this.#options;
    while (this.#next < this.#indices.length && this.scheduler.numWaiting < this.#maxNumSeqs) {
      const arrivalTime = this.#arrivalMs(this.#next);
      const { hasArrived } = this.#options;
      const isHere = hasArrived?.(arrivalTime, this.#nowMs) ?? arrivalTime <= this.#nowMs;
      if (!isHere) return;
      const index = this.#indices[this.#next++];
      const prompt = workload.outline(index, this.#outline);
      try {
        const maxTokens = workload.outputTokens[index];
        this.scheduler.add({ id: String(index), prompt, maxTokens, ignoreEos: true, arrivalTime });
      } catch (error) {
        if (!(error instanceof BlockstepError) || !REFUSALS.includes(error.code)) throw error;
        this.refused++;
      }
      workload.eraseOutline(prompt);
    }
  }

  #stall(): void {
    this.#emptySteps = 0;
    if (this.#next < this.#indices.length && this.#arrivalMs(this.#next) > this.#nowMs) {
      this.#nowMs = this.#arrivalMs(this.#next);
      return;
    }
    const { numRunning, numWaiting } = this.scheduler;
    const queues = `${numRunning} running, ${numWaiting} waiting`;
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', `nothing can be scheduled any more: ${queues}`);
  }
}
