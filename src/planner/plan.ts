import { createHash } from 'node:crypto';
import { badArgument, checkInteger } from '../base/errors.js';
import type { SchedulerOptions } from '../scheduler/options/options.js';
import { resolveOptions } from '../scheduler/options/resolve-options.js';
import type { Workload } from '../workload/workload.js';
import type { Profile } from './model/profile.js';
import { type Capacity, findCapacity, type PointRun, requestRate, runFleet } from './sweep/evaluation.js';
import { type FleetSize, findFleetSize } from './sweep/fleet-size.js';
import { optionsAt, type Point, pointsOf, type Sweep } from './sweep/knobs.js';
import { Pool } from './sweep/pool.js';
import type { Router } from './sweep/routing.js';
import { type Condition, sloInWords } from './sweep/slo.js';
import { shareColumns } from './sweep/task.js';

/** The input of a plan. */
export interface PlanInput {
  readonly workload: Workload;
  readonly profile: Profile;
  readonly slo: readonly Condition[];
  /** The options that are not varied. */
  readonly scheduler: Omit<SchedulerOptions, 'now'>;
  readonly sweep: Sweep;
  /** Engines that share the load while options are compared. Default 1. */
  readonly engines?: number;
  readonly router?: Router;
  /**
   * For this many of the best points, the plan finds the load at which the agreement breaks.
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
  /**
   * Known points of an interrupted plan, by the keys of `onPoint`. They are not simulated again.
   */
  readonly known?: ReadonlyMap<string, PointRun>;
  /** Called with each simulated point. */
  readonly onPoint?: ((key: string, run: PointRun, done: number, of: number) => void) | undefined;
  /** Called with the name of each stage. */
  readonly onStage?: ((stage: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A point with its run. */
export interface PlannedPoint {
  readonly point: Point;
  readonly run: PointRun;
  /** Whether no other point has both a shorter TTFT and a shorter TPOT (their 95th percentiles). */
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
  /** For each value: the smallest and the median strain of its points. */
  readonly values: readonly { readonly value: number; readonly best: number; readonly median: number }[];
  /**
   * The best strain of the worst value minus that of the best value, as a fraction of the latter.
   */
  readonly spread: number;
}

/** A finalist, and the load at which it breaks the agreement. */
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
  readonly sensitivities: readonly Sensitivity[];
  /** The highest load first. */
  readonly finalists: readonly Finalist[];
  readonly fleet: FleetSize | null;
  /** Simulated steps of all points. */
  readonly steps: number;
}

/** Members of the profile's ensemble in a band. */
const MEMBERS = 4;
/** Parts of the trace's time with their own number of engines. */
const WINDOWS = 24;

/**
 * Compares options under an agreement, by simulating each. Then it finds the load at which the best
 * options break the agreement, and how many engines the trace needs.
 * @throws ERR_BLOCKSTEP_BAD_ARG before anything runs: for a point that the scheduler refuses,
 * named; for a trace without times
 * @throws the signal's reason once it is aborted
 */
export async function plan(input: PlanInput): Promise<Plan> {
  const { workload, profile, slo, scheduler, sweep, signal, onStage } = input;
  const { engines = 1, router = 'round-robin', finalists = 3, maxEngines = 0, threads = 1 } = input;
  checkInteger('engines', engines, 1, 10_000);
  checkInteger('maxEngines', maxEngines, 0, 10_000);
  checkInteger('threads', threads, 1, 256);
  checkInteger('finalists', finalists, 1, 100);
  if (workload.length < 2 || !(workload.arrivalMs[workload.length - 1] > 0))
    throw badArgument(
      'the trace',
      `${workload.length} requests that arrive at once`,
      'requests that arrive over time',
    );
  const points = pointsOf(sweep);
  for (const point of points) checkPoint(workload, optionsAt(scheduler, point), point);
  signal?.throwIfAborted();
  const pool = new Pool({ columns: shareColumns(workload), profile }, threads);
  const stop = (): void => pool.fail(signal?.reason);
  signal?.addEventListener('abort', stop);
  try {
    const fleetOf = (point: Point, member: number) => ({
      scheduler: optionsAt(scheduler, point),
      engines,
      router,
      member,
    });
    const members = profile.kind === 'fitted' ? Math.min(MEMBERS, profile.fit.ensemble.length) : 0;
    onStage?.(`${points.length} points`);
    let done = 0;
    const keyOf = planKeys(input);
    const runs = await inOrder(points, async (point) => {
      const key = keyOf(point);
      const known = input.known?.get(key);
      if (known !== undefined) {
        done++;
        return known;
      }
      const { times: _, ...run } = await runFleet(pool, workload, { ...fleetOf(point, -1), speedUp: 1 }, slo);
      input.onPoint?.(key, run, ++done, points.length);
      return run;
    });
    const optimal = paretoOptimal(runs);
    onStage?.('error bands');
    const bands = await inOrder(points, async (point, i) => {
      if (!optimal[i] || members === 0) return null;
      const others = await membersOf(members, async (member) => {
        const { latencies } = await runFleet(pool, workload, { ...fleetOf(point, member), speedUp: 1 }, slo);
        return latencies;
      });
      const range = (of: (each: PointRun['latencies']) => number | null): [number, number] => {
        const values = [runs[i].latencies, ...others].map((each) => of(each) ?? 0);
        return [Math.min(...values), Math.max(...values)];
      };
      return { ttftMs: range((each) => each.ttft.p95), tpotMs: range((each) => each.tpot.p95) };
    });
    const best = bestOf(runs).slice(0, finalists);
    onStage?.('the load at which the agreement breaks');
    const found = await inOrder(best, async (i): Promise<Finalist> => {
      const capacityAt = (member: number) => findCapacity(pool, workload, fleetOf(points[i], member), slo);
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
      onStage?.('how many engines the trace needs');
      const { engines: _, ...each } = fleetOf(found[0].point, -1);
      fleet = await findFleetSize(pool, workload, each, slo, maxEngines, WINDOWS);
    }
    return {
      requestsPerSecond: requestRate(workload),
      points: points.map((point, i) => ({
        point,
        run: runs[i],
        isParetoOptimal: optimal[i],
        band: bands[i],
      })),
      sensitivities: sensitivitiesOf(sweep, points, runs),
      finalists: found,
      fleet,
      steps: runs.reduce((sum, run) => sum + run.steps, 0),
    };
  } finally {
    signal?.removeEventListener('abort', stop);
    await pool.close();
  }
}

/**
 * Makes the keys of a plan's points, from everything that a run depends on. The trace is hashed
 * once.
 */
function planKeys({
  workload,
  profile,
  slo,
  scheduler,
  engines,
  router,
}: PlanInput): (point: Point) => string {
  const common = createHash('sha256');
  const { arrivalMs, inputTokens, outputTokens, hashIds } = workload.columns;
  for (const column of [arrivalMs, inputTokens, outputTokens, hashIds])
    common.update(new Uint8Array(column.buffer, column.byteOffset, column.byteLength));
  const rest = { profile, slo: sloInWords(slo), scheduler, engines, router };
  common.update(
    JSON.stringify(rest, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
  );
  return (point) => common.copy().update(JSON.stringify(point)).digest('hex').slice(0, 32);
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

/**
 * The points by their strain. Of points with the same steps and latencies, only the first is kept.
 */
function bestOf(runs: readonly PointRun[]): number[] {
  const seen = new Set<string>();
  const order = [...runs.keys()].sort((a, b) => runs[a].strain - runs[b].strain || a - b);
  return order.filter((i) => {
    const { latencies, steps } = runs[i];
    const key = JSON.stringify([steps, latencies]);
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
}

function checkPoint(workload: Workload, options: Omit<SchedulerOptions, 'now'>, point: Point): void {
  try {
    const { numSpeculativeTokens } = resolveOptions({ maxModelLen: workload.maxTotalTokens, ...options });
    if (numSpeculativeTokens > 0)
      throw badArgument('numSpeculativeTokens', `${numSpeculativeTokens}`, '0: drafts are not planned');
  } catch (error) {
    const values = Object.entries(point).map(([name, value]) => `${name}=${value}`);
    if (error instanceof Error && values.length > 0)
      error.message = `at ${values.join(',')}: ${error.message}`;
    throw error;
  }
}

/** For each run, whether no other run is better in both TTFT and TPOT. */
export function paretoOptimal(runs: readonly PointRun[]): boolean[] {
  const at = ({ latencies }: PointRun): readonly [number, number] => [
    latencies.ttft.p95 ?? Number.POSITIVE_INFINITY,
    latencies.tpot.p95 ?? Number.POSITIVE_INFINITY,
  ];
  const order = [...runs.keys()].sort(
    (a, b) => at(runs[a])[0] - at(runs[b])[0] || at(runs[a])[1] - at(runs[b])[1],
  );
  const optimal = runs.map(() => false);
  let least = Number.POSITIVE_INFINITY;
  for (const i of order) {
    const [ttft, tpot] = at(runs[i]);
    if (ttft === Number.POSITIVE_INFINITY || tpot >= least) continue;
    least = tpot;
    optimal[i] = true;
  }
  return optimal;
}

function sensitivitiesOf(sweep: Sweep, points: readonly Point[], runs: readonly PointRun[]): Sensitivity[] {
  return [...sweep].map(([knob, values]) => {
    const found = values.map((value) => {
      const strains = runs.filter((_, i) => points[i][knob] === value).map(({ strain }) => strain);
      strains.sort((a, b) => a - b);
      return { value, best: strains[0], median: strains[strains.length >>> 1] };
    });
    const best = found.map((each) => each.best);
    const least = Math.min(...best);
    return { knob, values: found, spread: least === 0 ? 0 : Math.max(...best) / least - 1 };
  });
}
