// Points compared at one load, and at rising loads until none meets the objective.
import { type FleetRun, MOST_LOAD } from './evaluation.js';
import { bestOf, type Round, survivors } from './search.js';

/** The runs of points at one load, by their indices. */
export interface PointRuns {
  /** The run of the first round, which has all points of the comparison. */
  readonly first: ReadonlyMap<number, FleetRun>;
  /** The run with the most requests. */
  readonly latest: ReadonlyMap<number, FleetRun>;
  /** The runs with all requests. */
  readonly whole: ReadonlyMap<number, FleetRun>;
}

/** A comparison of points. */
export interface Comparison {
  /** The load, as a multiple of the trace's own. */
  readonly speedUp: number;
  readonly runs: PointRuns;
}

/** Runs points round by round. @param run runs a point with the first so many requests */
export async function compare(
  points: readonly number[],
  rounds: readonly Round[],
  run: (point: number, requests: number) => Promise<FleetRun>,
): Promise<PointRuns> {
  const first = new Map<number, FleetRun>();
  const latest = new Map<number, FleetRun>();
  let whole = new Map<number, FleetRun>();
  for (const { points: count, requests } of rounds) {
    const chosen = whole.size === 0 ? points : survivors(whole, count);
    const runs = await Promise.all(chosen.map((point) => run(point, requests)));
    whole = new Map(chosen.map((point, k) => [point, runs[k]]));
    for (const [point, each] of whole) {
      if (!first.has(point)) first.set(point, each);
      latest.set(point, each);
    }
  }
  return { first, latest, whole };
}

/**
 * Compares all points at the trace's own load. Then the load is doubled until every point misses the
 * objective: at a light load points hardly differ. Points that miss it are not run at higher loads.
 */
export async function compareUntilMissed(
  count: number,
  compareAt: (speedUp: number, points: readonly number[]) => Promise<PointRuns>,
): Promise<Comparison[]> {
  const comparisons: Comparison[] = [];
  let points = Array.from({ length: count }, (_, i) => i);
  for (let speedUp = 1; points.length > 0 && speedUp <= MOST_LOAD; speedUp *= 2) {
    const runs = await compareAt(speedUp, points);
    comparisons.push({ speedUp, runs });
    points = [...runs.latest].filter(([, { strain }]) => strain <= 1).map(([point]) => point);
  }
  return comparisons;
}

/** The points that were run with all requests, those first that bear the highest load. */
export function ranked(comparisons: readonly Comparison[]): number[] {
  return [...new Set(comparisons.toReversed().flatMap(({ runs }) => bestOf(runs.whole)))];
}

/** The comparison of all points at the highest load. Some miss the objective there, if any does at some load. */
export function feltBy(comparisons: readonly Comparison[]): Comparison {
  const [all] = comparisons;
  return comparisons.findLast(({ runs }) => runs.first.size === all.runs.first.size) ?? all;
}
