import type { SchedulerOptions } from '../../scheduler/options/options.js';
import type { Workload } from '../../workload/workload.js';
import type { Physics } from '../model/physics.js';
import type { HostTime } from '../model/physics-cost.js';
import type { FitErrors } from '../model/profile.js';
import type { SeenRange } from '../model/seen-range.js';
import type { CoefficientSpace } from './coefficient-space.js';
import { dataLoss, draw, type Problem, type Solution, solve, type Tried } from './least-squares.js';

/** The input of every fit, beside the measurement. */
export interface FitInput {
  readonly workload: Workload;
  readonly scheduler: Omit<SchedulerOptions, 'now'>;
  readonly physics: Physics;
  readonly host: HostTime;
  /** Fraction of the measurement that is fitted: the first part. The rest judges the fit. */
  readonly share: number;
  /** Starts of the optimiser, and most evaluations of each. */
  readonly starts: number;
  readonly evaluations: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, of: number, loss: number) => void) | undefined;
}

/** The best point of a search, and points that are nearly as good. */
export interface Found {
  /** @internal */
  readonly solution: Solution;
  /** The best point and others within 5 % of its loss: the error band. */
  readonly ensemble: readonly Float64Array[];
  /** How often the residuals were evaluated. */
  readonly simulations: number;
}

/** The result of a fit. */
export interface Fitted extends Found {
  /** @internal */
  readonly space: CoefficientSpace;
  readonly errors: FitErrors;
  /** The errors of the prior alone, for comparison. */
  readonly priorErrors: FitErrors;
  readonly seen: SeenRange | null;
}

/** Members of the ensemble: points within this fraction of the best loss, and how many at most. */
const BAND = 1.05;
const MEMBERS = 12;
/** Points that are drawn around the solution, in addition to the points of the search. */
const DRAWN = 12;

/**
 * Solves a problem from several starts, and finds the error band of the best.
 * @throws the signal's reason once it is aborted
 */
export async function search(
  problem: Problem,
  space: CoefficientSpace,
  { starts, evaluations, signal, onProgress }: FitInput,
): Promise<Found> {
  const solutions: Solution[] = [];
  for (const start of space.starts(starts - 1)) {
    solutions.push(solve(problem, start, evaluations, signal));
    onProgress?.(solutions.length, starts + 1, Math.min(...solutions.map(({ loss }) => loss)));
    // Lets signals and a progress bar run between two starts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const solution = solutions.reduce((best, each) => (each.loss < best.loss ? each : best));
  const drawn = draw(problem, solution, DRAWN, 1).map((logs): Tried => {
    signal?.throwIfAborted();
    return { logs, loss: dataLoss(problem, problem.residuals(logs)) };
  });
  const tried = [...solutions.flatMap((each) => each.tried), ...drawn];
  onProgress?.(starts + 1, starts + 1, solution.loss);
  return { solution, ensemble: bandOf(tried, solution.loss), simulations: tried.length };
}

/** Some of the points that are nearly as good as the best, spread over all of these. */
function bandOf(tried: readonly Tried[], best: number): Float64Array[] {
  const good = tried.filter(({ loss }) => loss <= BAND * best).sort((a, b) => a.loss - b.loss);
  const every = Math.max(1, good.length / MEMBERS);
  return Array.from({ length: Math.min(MEMBERS, good.length) }, (_, k) => good[Math.floor(k * every)].logs);
}
