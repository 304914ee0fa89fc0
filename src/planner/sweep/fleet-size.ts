import type { Workload } from '../../workload/workload.js';
import { latenciesOf, summarise } from '../run/summary.js';
import { type FleetRun, type PointRun, runFleet } from './evaluation.js';
import type { Pool } from './pool.js';
import { type Condition, strain } from './slo.js';
import type { Fleet } from './task.js';

/**
 * A part of the trace's time, and the fewest engines that keep the agreement for the requests that
 * arrive in it.
 */
export interface EngineWindow {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly requests: number;
  /** Null: even the largest number of engines breaks it. */
  readonly engines: number | null;
}

/** How many equal engines an agreement needs. */
export interface FleetSize {
  /** The fewest engines that keep the agreement over the whole trace; null: more than the limit. */
  readonly engines: number | null;
  readonly windows: readonly EngineWindow[];
  /** The numbers of engines that were tried, ascending, with their strain over the whole trace. */
  readonly tried: readonly { readonly engines: number; readonly strain: number }[];
  /** The run with the fewest engines, or with the most that were tried. */
  readonly run: PointRun;
}

/** Smaller numbers of engines that are tried for the windows. */
const STEPS = 8;

/**
 * Finds the fewest engines behind a router that keep an agreement at the trace's own load, over the
 * whole trace and over time.
 * @param most largest number of engines
 * @param windows parts of the time from the first arrival to the last
 */
export async function findFleetSize(
  pool: Pool,
  workload: Workload,
  fleet: Omit<Fleet, 'engines' | 'speedUp'>,
  slo: readonly Condition[],
  most: number,
  windows: number,
): Promise<FleetSize> {
  const runs = new Map<number, FleetRun>();
  const look = async (engines: number): Promise<boolean> => {
    const known = runs.get(engines);
    const run = known ?? (await runFleet(pool, workload, { ...fleet, engines, speedUp: 1 }, slo));
    runs.set(engines, run);
    return run.strain <= 1;
  };
  let low = 0;
  let high = 1;
  while (!(await look(high)) && high < most) {
    low = high;
    high = Math.min(most, 2 * high);
  }
  const isKept = runs.get(high)!.strain <= 1;
  while (isKept && high - low > 1) {
    const middle = (low + high) >>> 1;
    if (await look(middle)) high = middle;
    else low = middle;
  }
  // Quiet times need fewer engines.
  for (let engines = 1; engines < high; engines += Math.max(1, Math.floor(high / STEPS))) await look(engines);
  const tried = [...runs].sort(([a], [b]) => a - b);
  const { times: _, ...run } = runs.get(high)!;
  return {
    engines: isKept ? high : null,
    windows: windowsOf(workload, tried, slo, windows),
    tried: tried.map(([engines, each]) => ({ engines, strain: each.strain })),
    run,
  };
}

function windowsOf(
  workload: Workload,
  tried: readonly (readonly [number, FleetRun])[],
  slo: readonly Condition[],
  count: number,
): EngineWindow[] {
  const { arrivalMs, length } = workload;
  const width = arrivalMs[length - 1] / count;
  const latencies = tried.map(([engines, { times }]) => [engines, latenciesOf(workload, times)] as const);
  return Array.from({ length: count }, (_, w) => {
    const fromMs = w * width;
    const untilMs = (w + 1) * width;
    const isIn = (i: number): boolean =>
      arrivalMs[i] >= fromMs && (arrivalMs[i] < untilMs || (w === count - 1 && arrivalMs[i] <= untilMs));
    const requests = arrivalMs.reduce((sum, _, i) => sum + (isIn(i) ? 1 : 0), 0);
    const enough = latencies.find(([, each]) => strain(slo, summarise(each, isIn)) <= 1);
    return { fromMs, untilMs, requests, engines: requests === 0 ? 0 : (enough?.[0] ?? null) };
  });
}
