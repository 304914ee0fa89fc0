import { dataLoss, draw, type Problem, type Solution, type Tried } from './least-squares.js';

/** Members of the ensemble: those within this share of the best loss, and how many at most. */
const BAND = 1.05;
const MEMBERS = 12;
/** Points that are drawn around the solution, beside those that the fit has tried. */
const DRAWN = 12;

/** The error band of a fit: what is within 5 % of the best loss, spread over all that was tried and drawn. */
export function fitBand(
  problem: Problem,
  best: Solution,
  solutions: readonly Solution[],
  signal?: AbortSignal,
): { ensemble: Float64Array[]; drawn: number } {
  const drawn = draw(problem, best, DRAWN, 1).map((logs): Tried => {
    signal?.throwIfAborted();
    return { logs, loss: dataLoss(problem, problem.residuals(logs)) };
  });
  const tried = [...solutions.flatMap((each) => each.tried), ...drawn];
  const good = tried.filter(({ loss }) => loss <= BAND * best.loss).sort((a, b) => a.loss - b.loss);
  const every = Math.max(1, good.length / MEMBERS);
  const ensemble = Array.from(
    { length: Math.min(MEMBERS, good.length) },
    (_, k) => good[Math.floor(k * every)].logs,
  );
  return { ensemble, drawn: DRAWN };
}
