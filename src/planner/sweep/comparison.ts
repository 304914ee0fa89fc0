// Points compared at one load, and at the loads between which they begin to miss the objective.
import { type FleetRun, LEAST_LOAD, MOST_LOAD } from './evaluation.js';
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

/** Halves of the trace's own load, down to the least that is tried. */
const LOWER_LOADS = Array.from({ length: -Math.log2(LEAST_LOAD) }, (_, i) => 2 ** -(i + 1));

/** Runs points round by round. @param run runs points with the first so many requests */
export async function compare(
  points: readonly number[],
  rounds: readonly Round[],
  run: (points: readonly number[], requests: number) => Promise<FleetRun[]>,
): Promise<PointRuns> {
  const first = new Map<number, FleetRun>();
  const latest = new Map<number, FleetRun>();
  let whole = new Map<number, FleetRun>();
  for (const { points: count, requests } of rounds) {
    const chosen = whole.size === 0 ? points : survivors(whole, count);
    const runs = await run(chosen, requests);
    whole = new Map(chosen.map((point, k) => [point, runs[k]]));
    for (const [point, each] of whole) {
      if (!first.has(point)) first.set(point, each);
      latest.set(point, each);
    }
  }
  return { first, latest, whole };
}

/**
 * Compares all points at the trace's own load, and at the loads that tell them apart.
 *
 * At a light load points hardly differ. So the load is doubled until every point misses the
 * objective. Points that miss it are not run at higher loads.
 *
 * Where every point misses it from the begin, queues only grow, and latencies say how long the trace
 * is. So the load is halved until a point meets the objective with few requests, which takes little
 * time. From twice that load on, it is halved until a point meets the objective with all requests.
 * @param compareAt compares points at a load, with the first few requests or with all
 * @returns the comparisons with all requests, by rising load
 */
export async function compareAround(
  count: number,
  compareAt: (speedUp: number, points: readonly number[], isBrief: boolean) => Promise<PointRuns>,
): Promise<Comparison[]> {
  const all = Array.from({ length: count }, (_, i) => i);
  const comparisons: Comparison[] = [];
  const look = async (speedUp: number, points: readonly number[]): Promise<number[]> => {
    const runs = await compareAt(speedUp, points, false);
    comparisons.push({ speedUp, runs });
    return pointsThatMeet(runs);
  };
  let meeting = await look(1, all);
  if (meeting.length > 0) {
    for (let speedUp = 2; meeting.length > 0 && speedUp <= MOST_LOAD; speedUp *= 2)
      meeting = await look(speedUp, meeting);
    return comparisons;
  }
  let light = 0;
  while (light < LOWER_LOADS.length) {
    if (pointsThatMeet(await compareAt(LOWER_LOADS[light], all, true)).length > 0) break;
    light++;
  }
  for (const speedUp of LOWER_LOADS.slice(Math.max(0, light - 1)))
    if ((await look(speedUp, all)).length > 0) break;
  return comparisons.sort((a, b) => a.speedUp - b.speedUp);
}

/**
 * The points that were run with all requests, those first that meet the objective at the highest
 * load. Of points that meet it at the same loads, the strain at the next load decides.
 * @param comparisons by rising load
 */
export function ranked(comparisons: readonly Comparison[]): number[] {
  const ranks: number[] = [];
  let candidates: Iterable<number> = comparisons[0].runs.whole.keys();
  for (const { runs } of comparisons) {
    const among = new Set(candidates);
    ranks.unshift(...bestOf(runs.whole).filter((point) => among.has(point)));
    candidates = pointsThatMeet(runs);
  }
  return [...new Set(ranks)];
}

/**
 * The comparison that shows best how points differ. Of the comparisons with all points, it has the
 * highest load at which some meet the objective, and some miss it. Where no load is such, it is the
 * lowest at which all miss, otherwise the highest.
 * @param comparisons by rising load
 */
export function feltBy(comparisons: readonly Comparison[]): Comparison {
  const most = Math.max(...comparisons.map(({ runs }) => runs.first.size));
  const whole = comparisons.filter(({ runs }) => runs.first.size === most);
  const meets = ({ runs }: Comparison): number => pointsThatMeet(runs).length;
  return (
    whole.findLast((each) => meets(each) > 0 && meets(each) < most) ??
    whole.find((each) => meets(each) === 0) ??
    whole[whole.length - 1]
  );
}

function pointsThatMeet({ latest }: PointRuns): number[] {
  return [...latest].filter(([, { strain }]) => strain <= 1).map(([point]) => point);
}
