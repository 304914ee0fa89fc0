// The rounds of a grid and of successive halving, and the points that go into the next round.
import type { FleetRun } from './evaluation.js';

/** How the best of many points are found. */
export const SEARCHES = ['grid', 'halving'] as const;
export type Search = (typeof SEARCHES)[number];

/** A round of a search: so many points are run with the first so many requests. */
export interface Round {
  readonly points: number;
  readonly requests: number;
}

/** Each round of `halving` keeps a third of the points, for three times as many requests. */
const FACTOR = 3;
/** Fewer requests say too little about a 95th percentile. */
export const FEWEST_REQUESTS = 200;

/**
 * The rounds of a search. A grid has one round: all points with all requests. Successive halving
 * begins with few requests, and gives more and more of them to fewer and fewer points.
 * @param fewest points of the last round
 */
export function roundsOf(search: Search, points: number, requests: number, fewest: number): Round[] {
  let rounds = 1;
  let scale = FACTOR;
  while (search === 'halving' && requests / scale >= FEWEST_REQUESTS && points / scale >= fewest) {
    rounds++;
    scale *= FACTOR;
  }
  return Array.from({ length: rounds }, (_, round) => ({
    points: Math.max(Math.min(points, fewest), Math.ceil(points / FACTOR ** round)),
    requests: Math.ceil(requests / FACTOR ** (rounds - 1 - round)),
  }));
}

/**
 * The indices of the runs that go into the next round. First come those that are Pareto-optimal,
 * then those with the least strain. Of runs with the same steps and latencies, one comes before the
 * others.
 */
export function survivors(runs: ReadonlyMap<number, FleetRun>, count: number): number[] {
  const all = [...runs.keys()];
  const optimal = paretoOptimal(all.map((i) => runs.get(i)!));
  const distinct = bestOf(runs);
  const chosen = new Set([...all.filter((_, k) => optimal[k]), ...distinct, ...byStrain(runs)]);
  return [...chosen].slice(0, count).sort((a, b) => a - b);
}

/**
 * The indices of runs by their strain. Of runs with the same steps and latencies, only the first is
 * kept.
 */
export function bestOf(runs: ReadonlyMap<number, FleetRun>): number[] {
  const seen = new Set<string>();
  return byStrain(runs).filter((i) => {
    const { latencies, steps } = runs.get(i)!;
    const key = JSON.stringify([steps, latencies]);
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
}

function byStrain(runs: ReadonlyMap<number, FleetRun>): number[] {
  return [...runs.keys()].sort((a, b) => compare(runs.get(a)!.strain, runs.get(b)!.strain) || a - b);
}

/** Infinite strains are equal. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

/** For each run, whether no other run is better in both TTFT and TPOT. */
export function paretoOptimal(runs: readonly FleetRun[]): boolean[] {
  const at = ({ latencies }: FleetRun): readonly [number, number] => [
    latencies.ttft.p95 ?? Number.POSITIVE_INFINITY,
    latencies.tpot.p95 ?? Number.POSITIVE_INFINITY,
  ];
  const points = runs.map(at);
  const order = [...runs.keys()].sort(
    (a, b) => compare(points[a][0], points[b][0]) || compare(points[a][1], points[b][1]) || a - b,
  );
  const optimal = runs.map(() => false);
  let least = Number.POSITIVE_INFINITY;
  for (const i of order) {
    const [ttft, tpot] = points[i];
    if (ttft === Number.POSITIVE_INFINITY || tpot >= least) continue;
    least = tpot;
    optimal[i] = true;
  }
  return optimal;
}
