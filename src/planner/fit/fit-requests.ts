import type { SchedulerOptions } from '../../scheduler/options/options.js';
import type { Workload } from '../../workload/workload.js';
import type { Physics } from '../model/physics.js';
import { type HostTime, PhysicsCost } from '../model/physics-cost.js';
import type { FitErrors } from '../model/profile.js';
import { RangeCollector, type SeenRange } from '../model/seen-range.js';
import { EngineRun, type RequestTimes } from '../run/engine-run.js';
import { latenciesOf, quantile } from '../run/summary.js';
import { CoefficientSpace } from './coefficient-space.js';
import { fitBand } from './ensemble.js';
import { type Problem, type Solution, solve } from './least-squares.js';

/** What a fit to times of requests is made of. */
export interface RequestFitInput {
  readonly workload: Workload;
  /** When tokens came in truth. */
  readonly times: RequestTimes;
  readonly scheduler: Omit<SchedulerOptions, 'now'>;
  readonly physics: Physics;
  readonly host: HostTime;
  /** Share of the requests that are fitted: those that ended first. The others judge the fit. */
  readonly share: number;
  /** Starts of the optimiser, and most simulations of each. */
  readonly starts: number;
  readonly evaluations: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, of: number, loss: number) => void) | undefined;
}

/** What a fit found. */
export interface Fitted {
  /** @internal */
  readonly space: CoefficientSpace;
  /** @internal */
  readonly solution: Solution;
  /** Of the best fit and of every other one within 5 % of its loss. */
  readonly ensemble: readonly Float64Array[];
  readonly errors: FitErrors;
  /** The same errors with the prior alone: what the fit is worth. */
  readonly priorErrors: FitErrors;
  readonly seen: SeenRange | null;
  readonly simulations: number;
}

/** Residuals of requests of about this size are noise. */
const NOISE = 0.02;
/** A step of a few percent: a simulation jumps where a request comes into another step. */
const DIFFERENCE = 0.04;
/** A simulation of the fitted part goes on for this share behind its end. */
const BEHIND = 1.3;

/**
 * Fits coefficients to the times of requests, with the scheduler in the loop: every trial is a simulation of all that was decided.
 * @throws the signal's reason once it is aborted; ERR_BLOCKSTEP_BAD_ARG for options that the scheduler refuses
 */
export async function fitRequests(input: RequestFitInput): Promise<Fitted> {
  const { workload, times, physics, share, starts, evaluations } = input;
  const space = new CoefficientSpace(physics);
  const cutMs = quantile(Float64Array.from(times.lastMs).sort(), share);
  const isFitted = (i: number): boolean => times.lastMs[i] <= cutMs;
  const fitted = Array.from({ length: workload.length }, (_, i) => i).filter(isFitted);
  const lastArrival = fitted.reduce((last, i) => Math.max(last, i), 0);
  const indices = Int32Array.from({ length: workload.length }, (_, i) => i).filter(
    (i) => i <= lastArrival || workload.arrivalMs[i] <= cutMs * BEHIND,
  );
  const problem: Problem = {
    priors: space.priors,
    noise: NOISE,
    difference: DIFFERENCE,
    residuals: (logs) =>
      residualsOf(input, fitted, simulate(input, space, logs, { indices, untilMs: cutMs * BEHIND })),
  };
  let simulations = 0;
  const solutions: Solution[] = [];
  const all = space.starts(starts - 1);
  for (const start of all) {
    const solution = solve(problem, start, evaluations, input.signal);
    solutions.push(solution);
    simulations += solution.tried.length;
    input.onProgress?.(solutions.length, all.length + 1, Math.min(...solutions.map(({ loss }) => loss)));
    // Others may run between two starts: signals, a progress bar.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const solution = solutions.reduce((best, each) => (each.loss < best.loss ? each : best));
  const { ensemble, drawn } = fitBand(problem, solution, solutions, input.signal);
  input.onProgress?.(all.length + 1, all.length + 1, solution.loss);
  const seen = new RangeCollector();
  const whole = simulate(input, space, solution.logs, { seen });
  const prior = simulate(input, space, all[0], {});
  return {
    space,
    solution,
    ensemble,
    errors: errorsOf(input, whole, (i) => !isFitted(i)),
    priorErrors: errorsOf(input, prior, (i) => !isFitted(i)),
    seen: seen.range(),
    simulations: simulations + drawn + 2,
  };
}

function simulate(
  { workload, scheduler, physics, host }: RequestFitInput,
  space: CoefficientSpace,
  logs: Float64Array,
  { indices, untilMs, seen }: { indices?: Int32Array; untilMs?: number; seen?: RangeCollector },
): RequestTimes {
  const run = new EngineRun({
    workload,
    scheduler,
    cost: new PhysicsCost(physics, space.coefficients(logs), host),
    ...(indices && { indices }),
    ...(untilMs !== undefined && { untilMs }),
    ...(seen && { onStep: (features) => seen.add(features) }),
  });
  try {
    run.run();
    return run.times;
  } finally {
    run.dispose();
  }
}

/** How far the first and the last token of each fitted request are from the truth, as shares of its latencies. */
function residualsOf(
  { workload, times }: RequestFitInput,
  fitted: readonly number[],
  found: RequestTimes,
): Float64Array {
  const residuals = new Float64Array(2 * fitted.length);
  // What did not come within the simulation counts as if it came at its end, at the earliest.
  const end = found.lastMs.reduce((most, ms) => (ms > most ? ms : most), 0);
  const at = (ms: number, truth: number): number => (Number.isNaN(ms) ? Math.max(end, truth) * BEHIND : ms);
  for (const [k, i] of fitted.entries()) {
    const arrival = workload.arrivalMs[i];
    const ttft = times.firstMs[i] - arrival;
    const e2e = times.lastMs[i] - arrival;
    residuals[2 * k] =
      (at(found.firstMs[i], times.firstMs[i]) - times.firstMs[i]) / Math.max(ttft, 0.05 * e2e, 1e-3);
    residuals[2 * k + 1] = (at(found.lastMs[i], times.lastMs[i]) - times.lastMs[i]) / Math.max(e2e, 1e-3);
  }
  return residuals;
}

/** Medians of the absolute relative errors of the requests that were not fitted. */
function errorsOf(
  { workload, times }: RequestFitInput,
  found: RequestTimes,
  isHeldOut: (i: number) => boolean,
): FitErrors {
  const truth = latenciesOf(workload, times);
  const ours = latenciesOf(workload, found);
  const errors = (name: 'ttft' | 'tpot' | 'e2e'): Float64Array =>
    truth[name]
      .map((value, i) => (isHeldOut(i) && value > 0 ? Math.abs(ours[name][i] / value - 1) : Number.NaN))
      .filter((error) => !Number.isNaN(error))
      .sort();
  const at = (sorted: Float64Array, share: number): number | null =>
    sorted.length === 0 ? null : quantile(sorted, share);
  const e2e = errors('e2e');
  return {
    heldOut: e2e.length,
    stepMs: null,
    ttft: at(errors('ttft'), 0.5),
    tpot: at(errors('tpot'), 0.5),
    e2e: at(e2e, 0.5),
    p90: at(e2e, 0.9),
  };
}
