// Robust least squares with a prior, within bounds.
import { Random } from '../../base/random.js';

/** The prior of a parameter: its logarithm is normal around `mean`, and within bounds. */
export interface LogPrior {
  readonly mean: number;
  readonly spread: number;
  readonly min: number;
  readonly max: number;
}

/** A problem of least squares in the logarithms of parameters. */
export interface Problem {
  readonly priors: readonly LogPrior[];
  /**
   * Differences between model and data, as relative errors. Their number is constant, and none is
   * NaN.
   */
  residuals(logs: Float64Array): Float64Array;
  /** Residuals of about this size are noise. Residuals far beyond count linearly (Huber). */
  readonly noise: number;
  /** Step of finite differences, in logarithms: larger where residuals jump. */
  readonly difference: number;
}

/** An evaluated point. `loss` is the loss of the data alone. */
export interface Tried {
  readonly logs: Float64Array;
  readonly loss: number;
}

/** The best point, all evaluated points, and the uncertainty of the best. */
export interface Solution extends Tried {
  readonly tried: readonly Tried[];
  /** Standard deviations of the logarithms, given data and prior. */
  readonly deviations: Float64Array;
}

const HUBER = 2;
const MOST_DAMPING = 1e4;
const ENOUGH = 1e-3;

/**
 * Damped Gauss-Newton with a prior, as by Levenberg and Marquardt, within bounds. Parameters that
 * the data do not determine stay at the prior. No installed library combines priors, robust weights
 * and bounds.
 * @param evaluations most calls of `residuals`
 * @param signal stops between two calls
 * @throws the signal's reason once it is aborted
 */
export function solve(
  problem: Problem,
  start: Float64Array,
  evaluations: number,
  signal?: AbortSignal,
): Solution {
  const { priors } = problem;
  const tried: Tried[] = [];
  const look = (logs: Float64Array): { at: Tried; residuals: Float64Array } => {
    signal?.throwIfAborted();
    const residuals = problem.residuals(logs);
    const at = { logs, loss: dataLoss(problem, residuals) };
    tried.push(at);
    return { at, residuals };
  };
  let best = look(bounded(priors, start));
  let damping = 0.1;
  let normal = normalEquations(problem, best.at.logs, best.residuals, look);
  while (tried.length < evaluations && damping < MOST_DAMPING) {
    const step = solveDamped(normal, damping);
    const next = look(
      bounded(
        priors,
        best.at.logs.map((value, i) => value + step[i]),
      ),
    );
    const before = wholeLoss(problem, best.at);
    const after = wholeLoss(problem, next.at);
    if (!(after < before)) {
      damping *= 5;
      continue;
    }
    best = next;
    damping /= 4;
    if (tried.length + priors.length > evaluations) break;
    normal = normalEquations(problem, best.at.logs, best.residuals, look);
    if ((before - after) / (Math.abs(before) + 1e-9) < ENOUGH) break;
  }
  // A point that was evaluated for a derivative may be better than the last step's.
  for (const each of tried)
    if (wholeLoss(problem, each) < wholeLoss(problem, best.at))
      best = { at: each, residuals: best.residuals };
  const noisePart = jumps(problem, best.at.logs, normal, (logs) => look(logs).residuals);
  return { ...best.at, tried, deviations: deviationsOf(problem, normal, noisePart) };
}

/**
 * Plausible points, given data and prior: normal around the solution. For an error band, keep the
 * points that are nearly as good.
 */
export function draw(
  problem: Problem,
  { logs, deviations }: Solution,
  count: number,
  seed: number,
): Float64Array[] {
  const random = new Random(seed);
  const normal = (): number =>
    Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  return Array.from({ length: count }, () =>
    bounded(
      problem.priors,
      logs.map((value, i) => value + normal() * deviations[i]),
    ),
  );
}

/** The loss of the data at a point: the mean of the robust squares, in units of the noise. */
export function dataLoss({ noise }: Problem, residuals: Float64Array): number {
  let sum = 0;
  for (const residual of residuals) {
    const size = Math.abs(residual) / noise;
    sum += size <= HUBER ? size * size : HUBER * (2 * size - HUBER);
  }
  return sum / residuals.length;
}

function wholeLoss({ priors }: Problem, { logs, loss }: Tried): number {
  let sum = 0;
  for (let i = 0; i < logs.length; i++) sum += ((logs[i] - priors[i].mean) / priors[i].spread) ** 2;
  return loss + sum * PRIOR_WEIGHT;
}

/**
 * The weight of the prior relative to the mean of the data's squares. Residuals of one run depend
 * on each other, so they count as about this many independent residuals.
 */
const INDEPENDENT = 100;
const PRIOR_WEIGHT = 1 / INDEPENDENT;

/** The matrix of the normal equations, row by row, and the downhill direction. */
interface Normal {
  readonly matrix: Float64Array[];
  readonly downhill: Float64Array;
}

function normalEquations(
  problem: Problem,
  logs: Float64Array,
  residuals: Float64Array,
  look: (logs: Float64Array) => { residuals: Float64Array },
): Normal {
  const { priors, noise, difference } = problem;
  const count = residuals.length;
  const slopes = priors.map((prior, i) => {
    // Away from a near bound.
    const step = logs[i] + difference > prior.max ? -difference : difference;
    const moved = Float64Array.from(logs);
    moved[i] += step;
    const there = look(moved).residuals;
    return there.map((value, k) => (value - residuals[k]) / (step * noise));
  });
  const weights = residuals.map(
    (residual) => Math.min(1, (HUBER * noise) / Math.max(1e-12, Math.abs(residual))) / count,
  );
  const matrix = priors.map((prior, i) =>
    Float64Array.from(priors, (_, j) => {
      let sum = i === j ? PRIOR_WEIGHT / prior.spread ** 2 : 0;
      for (let k = 0; k < count; k++) sum += weights[k] * slopes[i][k] * slopes[j][k];
      return sum;
    }),
  );
  const downhill = Float64Array.from(priors, ({ mean, spread }, i) => {
    let sum = (PRIOR_WEIGHT * (mean - logs[i])) / spread ** 2;
    for (let k = 0; k < count; k++) sum -= (weights[k] * slopes[i][k] * residuals[k]) / noise;
    return sum;
  });
  return { matrix, downhill };
}

function solveDamped({ matrix, downhill }: Normal, damping: number): Float64Array {
  const damped = matrix.map((row, i) => row.map((value, j) => (i === j ? value * (1 + damping) : value)));
  return solveLinear(damped, downhill);
}

/**
 * The residuals of a simulation jump where a request moves into another step. They do so for every
 * coefficient, even if it hardly matters. This part of a derivative is no information. Along the
 * coefficient that matters least, everything nonlinear is such jumps.
 * @returns the part of each number on the matrix's diagonal that comes from jumps
 */
function jumps(
  problem: Problem,
  logs: Float64Array,
  { matrix }: Normal,
  residualsAt: (logs: Float64Array) => Float64Array,
): number {
  const { difference, noise } = problem;
  const least = matrix.reduce((best, row, i) => (row[i] < matrix[best][best] ? i : best), 0);
  const moved = (by: number): Float64Array =>
    residualsAt(Float64Array.from(logs, (value, i) => (i === least ? value + by : value)));
  const [below, middle, above] = [-difference, 0, difference].map(moved);
  let sum = 0;
  for (let k = 0; k < middle.length; k++) {
    const bent = (above[k] + below[k] - 2 * middle[k]) / (difference * noise);
    sum += Math.min(1, (HUBER * noise) / Math.max(1e-12, Math.abs(middle[k]))) * bent * bent;
  }
  return sum / middle.length;
}

/**
 * The square roots of the diagonal of the inverse, for `INDEPENDENT` residuals, and never above the
 * prior's.
 * @param noisePart the part of the matrix's diagonal that is no information
 */
function deviationsOf({ priors }: Problem, { matrix }: Normal, noisePart: number): Float64Array {
  const cleaned = matrix.map((row, i) => {
    const least = PRIOR_WEIGHT / priors[i].spread ** 2;
    return row.map((value, j) => (i === j ? Math.max(least, value - noisePart) : value));
  });
  return Float64Array.from(cleaned, (_, i) => {
    const unit = new Float64Array(matrix.length);
    unit[i] = 1;
    const variance = solveLinear(cleaned, unit)[i] * PRIOR_WEIGHT;
    const { spread } = priors[i];
    return variance > 0 ? Math.min(spread, Math.sqrt(variance)) : spread;
  });
}

/** Solves a symmetric, positive definite system by Gaussian elimination with pivots. */
function solveLinear(matrix: readonly Float64Array[], right: Float64Array): Float64Array {
  const rows = matrix.map((row, i) => [...row, right[i]]);
  const n = rows.length;
  for (let i = 0; i < n; i++) {
    let pivot = i;
    for (let k = i + 1; k < n; k++) if (Math.abs(rows[k][i]) > Math.abs(rows[pivot][i])) pivot = k;
    [rows[i], rows[pivot]] = [rows[pivot], rows[i]];
    for (let k = i + 1; k < n; k++) {
      const factor = rows[k][i] / rows[i][i];
      for (let j = i; j <= n; j++) rows[k][j] -= factor * rows[i][j];
    }
  }
  const found = new Float64Array(n);
  for (let i = n - 1; i >= 0; i--) {
    let sum = rows[i][n];
    for (let j = i + 1; j < n; j++) sum -= rows[i][j] * found[j];
    found[i] = sum / rows[i][i];
  }
  return found;
}

function bounded(priors: readonly LogPrior[], logs: Float64Array): Float64Array {
  return logs.map((value, i) => Math.min(priors[i].max, Math.max(priors[i].min, value)));
}
