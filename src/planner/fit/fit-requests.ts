import { PhysicsCost } from '../model/physics-cost.js';
import type { FitErrors } from '../model/profile.js';
import { RangeCollector } from '../model/seen-range.js';
import { EngineRun, type RequestTimes } from '../run/engine-run.js';
import { type Latency, latenciesOf, quantile, quantilesOf } from '../run/summary.js';
import { CoefficientSpace } from './coefficient-space.js';
import type { Problem } from './least-squares.js';
import { type FitInput, type Fitted, search } from './search.js';

/** The input of a fit to times of requests. */
export interface RequestFitInput extends FitInput {
  /** Measured times of tokens. The requests that ended first are fitted. */
  readonly times: RequestTimes;
}

/** Residuals of requests of about this size are noise. */
const NOISE = 0.02;
/**
 * A difference of a few percent, because a simulation jumps where a request moves into another
 * step.
 */
const DIFFERENCE = 0.04;
/** A simulation of the fitted part ends at this multiple of its duration. */
const BEHIND = 1.3;

/**
 * Fits coefficients to the times of requests, with the scheduler in the loop: every trial simulates
 * all decisions.
 * @throws the signal's reason once it is aborted; ERR_BLOCKSTEP_BAD_ARG for options that the
 * scheduler refuses
 */
export async function fitRequests(input: RequestFitInput): Promise<Fitted> {
  const { workload, times, physics, share } = input;
  const space = new CoefficientSpace(physics);
  const cutMs = quantile(Float64Array.from(times.lastMs).sort(), share);
  const isFitted = (i: number): boolean => times.lastMs[i] <= cutMs;
  const isHeldOut = (i: number): boolean => !isFitted(i);
  const all = Int32Array.from(times.lastMs.keys());
  const fitted = all.filter(isFitted);
  const untilMs = cutMs * BEHIND;
  const lastArrival = fitted[fitted.length - 1];
  const indices = all.filter((i) => i <= lastArrival || workload.arrivalMs[i] <= untilMs);
  const problem: Problem = {
    priors: space.priors,
    noise: NOISE,
    difference: DIFFERENCE,
    residuals: (logs) => residualsOf(input, fitted, simulate(input, space, logs, { indices, untilMs })),
  };
  const found = await search(problem, space, input);
  const seen = new RangeCollector();
  const whole = simulate(input, space, found.solution.logs, { seen });
  const prior = simulate(input, space, space.starts(0)[0], {});
  return {
    ...found,
    space,
    errors: errorsOf(input, whole, isHeldOut),
    priorErrors: errorsOf(input, prior, isHeldOut),
    seen: seen.range(),
    simulations: found.simulations + 2,
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

/**
 * The errors of the first and the last token of each fitted request, as fractions of its latencies.
 */
function residualsOf(
  { workload, times }: RequestFitInput,
  fitted: Int32Array,
  found: RequestTimes,
): Float64Array {
  const residuals = new Float64Array(2 * fitted.length);
  // A token that the simulation did not reach counts as later than the end of the simulation.
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
  const errors = (name: Latency): Float64Array =>
    truth[name]
      .map((value, i) => (isHeldOut(i) && value > 0 ? Math.abs(ours[name][i] / value - 1) : Number.NaN))
      .filter((error) => !Number.isNaN(error));
  const e2e = errors('e2e');
  const { p50, p90 } = quantilesOf(e2e);
  return {
    heldOut: e2e.length,
    stepMs: null,
    ttft: quantilesOf(errors('ttft')).p50,
    tpot: quantilesOf(errors('tpot')).p50,
    e2e: p50,
    p90,
  };
}
