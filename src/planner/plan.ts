import { checkNumber } from '../base/checks.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { ACCEPTANCE_RATE } from '../executors/cost-model/cost-model.js';
import type { SchedulerOptions } from '../scheduler/options/options.js';
import { resolveOptions } from '../scheduler/options/resolve-options.js';
import type { Workload } from '../workload/workload.js';
import type { Profile } from './model/profile.js';
import { compare, compareAround, feltBy, ranked } from './sweep/comparison.js';
import { type Capacity, Evaluation, type FleetRun, findCapacity, requestRate } from './sweep/evaluation.js';
import { type FleetSize, findFleetSize } from './sweep/fleet-size.js';
import { type KnobValue, optionsAt, type Point, pointsOf, type Sweep } from './sweep/knobs.js';
import { Pool } from './sweep/pool.js';
import { ROUTERS, type Router } from './sweep/routing.js';
import { FEWEST_REQUESTS, paretoOptimal, roundsOf, SEARCHES, type Search } from './sweep/search.js';
import { runSharingSeats } from './sweep/seats.js';
import type { Condition } from './sweep/slo.js';
import { shareColumns } from './sweep/task.js';

/** The input of a plan. */
export interface PlanInput {
  readonly workload: Workload;
  readonly profile: Profile;
  readonly slo: readonly Condition[];
  /** The options that are not varied. */
  readonly scheduler: Omit<SchedulerOptions, 'now'>;
  readonly sweep: Sweep;
  /**
   * `grid` (default): every point is simulated with all requests. `halving`: all points are
   * simulated with the first few requests. The best third of each round gets three times as many,
   * until the last round has all requests.
   */
  readonly search?: Search;
  /** Probability that a draft token is accepted, given that those before it were. Default 0.7. */
  readonly acceptanceRate?: number;
  /** Engines that share the load while options are compared. Default 1. */
  readonly engines?: number;
  readonly router?: Router;
  /**
   * For this many of the best points, the plan finds the highest load that meets the objective.
   * Default 3.
   */
  readonly finalists?: number;
  /**
   * Upper limit for the number of engines that the trace needs; 0 (default): the number is not
   * searched.
   */
  readonly maxEngines?: number;
  /** Threads that simulate. Default 1. The plan does not depend on it. */
  readonly threads?: number;
  /** Runs of an interrupted plan, by the keys of `onRun`. They are not simulated again. */
  readonly known?: ReadonlyMap<string, FleetRun>;
  /** Called with each simulated run, of every stage. */
  readonly onRun?: ((key: string, run: FleetRun) => void) | undefined;
  /** Called at the begin of each stage, with 0 done, and as its parts are done. */
  readonly onProgress?: ((stage: string, done: number, of: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A point with its run. */
export interface PlannedPoint {
  readonly point: Point;
  /** The run with the most requests. `halving` runs most points with fewer than all. */
  readonly run: FleetRun;
  /**
   * Whether no other point has both a shorter TTFT and a shorter TPOT (their 95th percentiles), of
   * those that were run with all requests.
   */
  readonly isParetoOptimal: boolean;
  /**
   * For optimal points, the range over other fits of the profile: least and most. Null: the profile
   * has no others.
   */
  readonly band: {
    readonly ttftMs: readonly [number, number];
    readonly tpotMs: readonly [number, number];
  } | null;
}

/** How much an option matters. */
export interface Sensitivity {
  readonly knob: string;
  /**
   * For each value: the smallest and the median strain of its points. With `halving` they are those
   * of the first round, which has all points.
   */
  readonly values: readonly { readonly value: KnobValue; readonly best: number; readonly median: number }[];
  /**
   * The best strain of the worst value minus that of the best value, as a fraction of the latter.
   */
  readonly spread: number;
}

/** A finalist, and the highest load at which it meets the objective. */
export interface Finalist {
  readonly point: Point;
  readonly capacity: Capacity;
  /** Requests a second over other fits of the profile: least and most; null: there are none. */
  readonly band: readonly [number, number] | null;
}

/** The result of a plan. */
export interface Plan {
  readonly requestsPerSecond: number;
  /** In the order of the sweep. */
  readonly points: readonly PlannedPoint[];
  /**
   * The load of the sensitivities, in requests per second: the trace's own load times a power of
   * two. All points were run at it. It is the highest such load at which some meet the objective
   * and others miss it, if there is one.
   */
  readonly rankedAt: number;
  readonly sensitivities: readonly Sensitivity[];
  /** The highest load first. */
  readonly finalists: readonly Finalist[];
  readonly fleet: FleetSize | null;
  /** Steps of all points. Points that share a run count its steps each. */
  readonly steps: number;
}

/** Members of the profile's ensemble in a band. */
const MEMBERS = 4;
/** Parts of the trace's time with their own number of engines. */
const WINDOWS = 24;

/**
 * Compares options under a latency objective, by simulating each. Then it finds the highest load at
 * which the best options meet the objective, and the number of engines that the trace needs.
 * @throws ERR_BLOCKSTEP_BAD_ARG before anything runs: for a point that the scheduler refuses,
 * named; for a trace without times
 * @throws the signal's reason once it is aborted
 */
export async function plan(input: PlanInput): Promise<Plan> {
  const { points, search, engines, router, finalists, maxEngines, threads, acceptanceRate } =
    checkPlan(input);
  const { workload, profile, slo, scheduler, sweep, signal } = input;
  signal?.throwIfAborted();
  const pool = new Pool({ columns: shareColumns(workload), profile }, threads);
  const stop = (): void => pool.fail(signal?.reason);
  signal?.addEventListener('abort', stop);
  try {
    const evaluation = new Evaluation(pool, workload, profile, slo, input);
    const fleetOf = (point: Point, member: number) => {
      return { scheduler: optionsAt(scheduler, point), engines, router, member, acceptanceRate };
    };
    const runOf = (i: number, member: number, speedUp: number, requests: number) =>
      evaluation.run({ ...fleetOf(points[i], member), speedUp, requests });
    const members = profile.kind === 'fitted' ? Math.min(MEMBERS, profile.fit.ensemble.length) : 0;

    const comparisons = await compareAround(points.length, (speedUp, candidates, isBrief) => {
      const requests = isBrief ? Math.min(workload.length, FEWEST_REQUESTS) : workload.length;
      const rounds = roundsOf(search, candidates.length, requests, finalists);
      const load = speedUp === 1 ? 'points' : `points at ${speedUp} times the load`;
      const stage = isBrief ? `${load}, with ${requests} requests` : load;
      const done = begin(
        input,
        stage,
        rounds.reduce((sum, round) => sum + round.points, 0),
      );
      const optionsOf = (i: number) => optionsAt(scheduler, points[i]);
      return compare(candidates, rounds, (chosen, requests) =>
        runSharingSeats(chosen, optionsOf, threads, (i) => runOf(i, -1, speedUp, requests), done),
      );
    });
    const { latest, whole } = comparisons.find(({ speedUp }) => speedUp === 1)!.runs;

    const wholeIndices = [...whole.keys()];
    const isOptimal = paretoOptimal([...whole.values()]);
    const optimal = wholeIndices.filter((_, k) => isOptimal[k]);
    const bandDone = begin(input, 'error bands', optimal.length * members);
    const bands = await inOrder(optimal, async (i): Promise<PlannedPoint['band']> => {
      if (members === 0) return null;
      const others = await membersOf(members, async (member) => {
        const { latencies } = await runOf(i, member, 1, workload.length);
        bandDone();
        return latencies;
      });
      const range = (of: (each: FleetRun['latencies']) => number | null): [number, number] => {
        const values = [whole.get(i)!.latencies, ...others].map((each) => of(each) ?? 0);
        return [Math.min(...values), Math.max(...values)];
      };
      return { ttftMs: range((each) => each.ttft.p95), tpotMs: range((each) => each.tpot.p95) };
    });

    const best = ranked(comparisons).slice(0, finalists);
    const felt = feltBy(comparisons);
    const loadDone = begin(input, 'loads', best.length * (1 + members));
    const found = await inOrder(best, async (i): Promise<Finalist> => {
      const capacityAt = async (member: number): Promise<Capacity> => {
        const capacity = await findCapacity(evaluation, fleetOf(points[i], member));
        loadDone();
        return capacity;
      };
      const capacity = await capacityAt(-1);
      const others = await membersOf(members, async (member) => (await capacityAt(member)).requestsPerSecond);
      const all = [capacity.requestsPerSecond, ...others];
      return {
        point: points[i],
        capacity,
        band: members === 0 ? null : [Math.min(...all), Math.max(...all)],
      };
    });
    found.sort((a, b) => b.capacity.requestsPerSecond - a.capacity.requestsPerSecond);

    let fleet: FleetSize | null = null;
    if (maxEngines > 0) {
      const fleetDone = begin(input, 'engines', 1);
      const { engines: _, ...each } = fleetOf(found[0].point, -1);
      fleet = await findFleetSize(evaluation, each, maxEngines, WINDOWS);
      fleetDone();
    }
    return {
      requestsPerSecond: requestRate(workload),
      points: points.map((point, i) => {
        const at = optimal.indexOf(i);
        return { point, run: latest.get(i)!, isParetoOptimal: at >= 0, band: at < 0 ? null : bands[at] };
      }),
      rankedAt: requestRate(workload) * felt.speedUp,
      sensitivities: sensitivitiesOf(sweep, points, felt.runs.first),
      finalists: found,
      fleet,
      steps: [...latest.values()].reduce((sum, run) => sum + run.steps, 0),
    };
  } finally {
    signal?.removeEventListener('abort', stop);
    await pool.close();
  }
}

/** The points of a plan, and its options with their defaults. */
type CheckedPlan = { readonly points: Point[] } & Required<
  Pick<PlanInput, 'search' | 'router' | 'engines' | 'maxEngines' | 'threads' | 'finalists' | 'acceptanceRate'>
>;

/**
 * Checks the input of a plan.
 * @throws ERR_BLOCKSTEP_BAD_ARG as `plan`
 */
export function checkPlan(input: PlanInput): CheckedPlan {
  const { workload, scheduler, sweep, search = 'grid', router = 'round-robin' } = input;
  const { engines = 1, maxEngines = 0, threads = 1, finalists = 3, acceptanceRate = ACCEPTANCE_RATE } = input;
  checkNumber('acceptanceRate', acceptanceRate, 0, 1);
  checkInteger('engines', engines, 1, 10_000);
  checkInteger('maxEngines', maxEngines, 0, 10_000);
  checkInteger('threads', threads, 1, 256);
  checkInteger('finalists', finalists, 1, 100);
  if (!SEARCHES.includes(search)) throw badArgument('search', show(search), SEARCHES.join(' or '));
  if (!ROUTERS.includes(router)) throw badArgument('router', show(router), ROUTERS.join(' or '));
  if (workload.length < 2 || !(workload.arrivalMs[workload.length - 1] > 0))
    throw badArgument(
      'the trace',
      `${workload.length} requests that arrive at once`,
      'requests that arrive over time',
    );
  const points = pointsOf(sweep);
  for (const point of points) checkPoint(workload, optionsAt(scheduler, point), point);
  return { points, search, router, engines, maxEngines, threads, finalists, acceptanceRate };
}

/** Begins a stage. @returns a function to be called as each of its parts is done */
function begin({ onProgress }: PlanInput, stage: string, of: number): () => void {
  let done = 0;
  if (of > 0) onProgress?.(stage, 0, of);
  return () => onProgress?.(stage, ++done, of);
}

/**
 * Calls a function for all items at once, and waits for all. The results keep the order of the
 * items. The pool runs as many as it has threads.
 */
function inOrder<T, R>(items: readonly T[], act: (item: T, i: number) => Promise<R>): Promise<R[]> {
  return Promise.all(items.map(act));
}

function membersOf<R>(count: number, act: (member: number) => Promise<R>): Promise<R[]> {
  return Promise.all(Array.from({ length: count }, (_, member) => act(member)));
}

function checkPoint(workload: Workload, options: Omit<SchedulerOptions, 'now'>, point: Point): void {
  try {
    const resolved = resolveOptions({ maxModelLen: workload.maxTotalTokens, ...options });
    const { numSpeculativeTokens, speculativeMethod, pipelineDepth, maxNumSeqs, maxNumBatchedTokens } =
      resolved;
    if (maxNumBatchedTokens < maxNumSeqs)
      throw badArgument(
        'maxNumBatchedTokens',
        show(maxNumBatchedTokens),
        `at least maxNumSeqs (${maxNumSeqs}), as in vLLM`,
      );
    if (numSpeculativeTokens > 0 && speculativeMethod === 'ngram' && pipelineDepth > 1)
      throw badArgument(
        'speculativeMethod',
        show(speculativeMethod),
        'eagle or draft_model with pipelineDepth above 1, as in vLLM',
      );
  } catch (error) {
    const values = Object.entries(point).map(([name, value]) => `${name}=${value}`);
    if (error instanceof Error && values.length > 0)
      error.message = `at ${values.join(',')}: ${error.message}`;
    throw error;
  }
}

function sensitivitiesOf(
  sweep: Sweep,
  points: readonly Point[],
  runs: ReadonlyMap<number, FleetRun>,
): Sensitivity[] {
  return [...sweep].map(([knob, values]) => {
    const found = values.map((value) => {
      const strains = [...runs].filter(([i]) => points[i][knob] === value).map(([, { strain }]) => strain);
      strains.sort((a, b) => a - b);
      return { value, best: strains[0], median: strains[strains.length >>> 1] };
    });
    const best = found.map((each) => each.best);
    const least = Math.min(...best);
    return { knob, values: found, spread: least === 0 ? 0 : Math.max(...best) / least - 1 };
  });
}
