import { BlockstepError } from '../../base/errors.js';
import { StepFeatures } from '../../executors/cost-model/step-features.js';
import { EntryKind, type Plan } from '../../scheduler/plan/plan.js';
import { PhysicsCost } from '../model/physics-cost.js';
import type { FitErrors } from '../model/profile.js';
import { RangeCollector } from '../model/seen-range.js';
import { EngineRun } from '../run/engine-run.js';
import { quantilesOf } from '../run/summary.js';
import { CoefficientSpace } from './coefficient-space.js';
import type { Composition, LoggedStep } from './iteration-log.js';
import type { Problem } from './least-squares.js';
import { type FitInput, type Fitted, search } from './search.js';

/** The input of a fit to logged steps. */
export interface StepFitInput extends FitInput {
  readonly log: readonly LoggedStep[];
}

/** A step of the log, and our step of the same number. */
export interface StepDifference {
  /** Number of the step, from 0, and its line in the log. */
  readonly step: number;
  readonly line: number;
  readonly logged: Composition;
  /** Null: our run had no more steps. */
  readonly ours: Composition | null;
}

/** The result for a log. */
export interface StepFit extends Fitted {
  /** Leading steps with the same decisions as in the log. */
  readonly equalSteps: number;
  readonly steps: number;
  /** The first step that differs; null if none does. */
  readonly difference: StepDifference | null;
}

/**
 * A log has no arrivals. A request may arrive at the scheduler so much earlier or later than the
 * trace says, and by the step before. There is time between the steps, and between a client and the
 * engine.
 */
const SLACK_MS = 25;
/** Fewer equal steps say too little. */
const FEWEST = 50;
const NOISE = 0.03;
/**
 * Fits coefficients to the iteration log of vLLM. The same requests are scheduled with the logged
 * times as the clock. As long as each step computes what the log says, all its inputs are known
 * exactly. The first step that differs is named, and only the steps before it are fitted.
 * @throws ERR_BLOCKSTEP_BAD_ARG if fewer than 50 steps are equal; the signal's reason once it is
 * aborted
 */
export async function fitSteps(input: StepFitInput): Promise<StepFit> {
  const { log, physics, host, share } = input;
  const { features, difference } = schedule(input);
  const equalSteps = features.length;
  if (equalSteps < FEWEST) {
    const words = difference === null ? '' : `; ${differenceInWords(difference)}`;
    throw bad(
      `the log is of other requests or options: expected at least ${FEWEST} equal steps, got ${equalSteps}${words}`,
    );
  }
  const space = new CoefficientSpace(physics);
  const costAt = (logs: Float64Array) => new PhysicsCost(physics, space.coefficients(logs), host);
  // The time of an iteration includes the host's work, unless the next iteration is planned
  // meanwhile.
  const isAlone = (input.scheduler.pipelineDepth ?? 1) === 1;
  const msOf = (cost: PhysicsCost, i: number): number =>
    cost.stepMs(features[i]) + (isAlone ? cost.hostMs(features[i]) : 0);
  const count = Math.floor(share * equalSteps);
  const problem: Problem = {
    priors: space.priors,
    noise: NOISE,
    difference: 1e-3,
    residuals: (logs) => {
      const cost = costAt(logs);
      return Float64Array.from({ length: count }, (_, i) => Math.log(msOf(cost, i) / log[i].elapsedMs));
    },
  };
  const found = await search(problem, space, input);
  const seen = new RangeCollector();
  for (const each of features) seen.add(each);
  const errorsAt = (logs: Float64Array): FitErrors => {
    const cost = costAt(logs);
    const errors = Float64Array.from({ length: equalSteps - count }, (_, k) =>
      Math.abs(msOf(cost, count + k) / log[count + k].elapsedMs - 1),
    );
    const { p50, p90 } = quantilesOf(errors);
    return { heldOut: errors.length, stepMs: p50, ttft: null, tpot: null, e2e: null, p90 };
  };
  return {
    ...found,
    space,
    errors: errorsAt(found.solution.logs),
    priorErrors: errorsAt(space.starts(0)[0]),
    seen: seen.range(),
    equalSteps,
    steps: log.length,
    difference,
  };
}

/** Schedules the requests with the logged times, as long as the steps equal those of the log. */
function schedule({ workload, log, scheduler }: StepFitInput): {
  features: StepFeatures[];
  difference: StepDifference | null;
} {
  const features: StepFeatures[] = [];
  let difference: StepDifference | null = null;
  const at = (step: number): number => log[Math.min(Math.max(0, step), log.length - 1)].elapsedMs;
  const depth = scheduler.pipelineDepth ?? 1;
  // Requests that were given to the scheduler, those that were planned, and those of the last step
  // whose prompt was not computed to its end.
  let added = 0;
  let started = 0;
  let unfinished = 0;
  /** How much later it is than the times of the steps say, because there is time between steps. */
  let aheadMs = 0;
  const run: EngineRun = new EngineRun({
    workload,
    scheduler,
    hasArrived: (arrivalMs, nowMs) => {
      if (!run.scheduler.hasWork()) aheadMs = 0;
      const lateMs = nowMs + aheadMs - arrivalMs;
      const waiting = added - started - run.refused;
      const wanted = (log[features.length]?.contextRequests ?? 0) - unfinished - waiting;
      const slackMs = SLACK_MS + at(features.length - 1);
      // The log decides, as far as the clock may be wrong. A request behind others changes nothing.
      const isBusy = run.scheduler.hasWork();
      const leastMs = wanted > 0 ? -slackMs : waiting === 0 ? slackMs : 0;
      if (lateMs < (isBusy ? leastMs : 0)) return false;
      if (lateMs < 0) aheadMs -= lateMs;
      added++;
      return true;
    },
    cost: { hostMs: () => 0, stepMs: () => at(features.length - 1) },
    onStep: (found, plan) => {
      const step = features.length;
      if (difference !== null || step >= log.length) return;
      const logged = log[step];
      const ours = compositionOf(plan, depth);
      if (isEqual(logged, ours)) features.push(Object.assign(new StepFeatures(), found));
      else difference = { step, line: logged.line, logged, ours };
      unfinished = 0;
      for (let i = 0; i < plan.numRequests; i++) {
        if (plan.kinds[i] === EntryKind.new) started++;
        if (plan.maxOutputTokens[i] === 0) unfinished++;
      }
    },
  });
  try {
    while (difference === null && features.length < log.length && run.advance());
  } finally {
    run.dispose();
  }
  if (difference === null && features.length < log.length) {
    const step = features.length;
    difference = { step, line: log[step].line, logged: log[step], ours: null };
  }
  return { features, difference };
}

function compositionOf(plan: Plan, depth: number): Composition {
  const found = { contextRequests: 0, contextTokens: 0, generationRequests: 0, generationTokens: 0 };
  for (let i = 0; i < plan.numRequests; i++) {
    const request = plan.requests[i];
    // With several steps in flight, the token of the step just planned is already a placeholder.
    const planned = depth > 1 ? plan.maxOutputTokens[i] : 0;
    const known = request.numOutputTokens + request.numOutputPlaceholders - planned;
    if (plan.kinds[i] === EntryKind.new || known === 0) {
      found.contextRequests++;
      found.contextTokens += plan.numScheduledTokens[i];
    } else {
      found.generationRequests++;
      found.generationTokens += plan.numScheduledTokens[i];
    }
  }
  return found;
}

function isEqual(a: Composition, b: Composition): boolean {
  return (
    a.contextRequests === b.contextRequests &&
    a.contextTokens === b.contextTokens &&
    a.generationRequests === b.generationRequests &&
    a.generationTokens === b.generationTokens
  );
}

/** The difference as a sentence. */
export function differenceInWords({ step, line, logged, ours }: StepDifference): string {
  const words = (c: Composition): string =>
    `${c.contextRequests} context requests with ${c.contextTokens} tokens and ${c.generationRequests} generation requests with ${c.generationTokens}`;
  const own = ours === null ? 'the simulation has ended' : `the simulation has ${words(ours)}`;
  return `step ${step} (line ${line}) differs: the log has ${words(logged)}, ${own}`;
}

function bad(problem: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', problem);
}
