import { type Evaluation, type FleetRun, partsOf } from './evaluation.js';
import type { Fleet } from './task.js';

/**
 * A part of the trace's time, and the fewest engines that meet the objective for the requests that
 * arrive in it.
 */
export interface EngineWindow {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly requests: number;
  /** Null: even the largest number of engines breaks it. */
  readonly engines: number | null;
}

/** How many equal engines an objective needs. */
export interface FleetSize {
  /** The fewest engines that meet the objective over the whole trace; null: more than the limit. */
  readonly engines: number | null;
  readonly windows: readonly EngineWindow[];
  /** The numbers of engines that were tried, ascending, with their strain over the whole trace. */
  readonly tried: readonly { readonly engines: number; readonly strain: number }[];
  /** The run with the fewest engines, or with the most that were tried. */
  readonly run: FleetRun;
}

/** Smaller numbers of engines that are tried for the windows. */
const STEPS = 8;

/**
 * Finds the fewest engines behind a router that meet an objective at the trace's own load, over the
 * whole trace and over time.
 * @param most largest number of engines
 * @param windows parts of the time from the first arrival to the last
 */
export async function findFleetSize(
  evaluation: Evaluation,
  fleet: Omit<Fleet, 'engines' | 'speedUp' | 'requests'>,
  most: number,
  windows: number,
): Promise<FleetSize> {
  const runs = new Map<number, FleetRun>();
  const requests = evaluation.workload.length;
  const look = async (engines: number): Promise<boolean> => {
    const known = runs.get(engines);
    const run = known ?? (await evaluation.run({ ...fleet, engines, speedUp: 1, requests }, windows));
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
  return {
    engines: isKept ? high : null,
    windows: windowsOf(evaluation, tried, windows),
    tried: tried.map(([engines, each]) => ({ engines, strain: each.strain })),
    run: runs.get(high)!,
  };
}

function windowsOf(
  { workload }: Evaluation,
  tried: readonly (readonly [number, FleetRun])[],
  count: number,
): EngineWindow[] {
  return partsOf(workload, count).map(({ fromMs, untilMs, includes }, part) => {
    const requests = workload.arrivalMs.reduce((sum, _, i) => sum + (includes(i) ? 1 : 0), 0);
    const enough = tried.find(([, { parts }]) => parts[part] <= 1);
    return { fromMs, untilMs, requests, engines: requests === 0 ? 0 : (enough?.[0] ?? null) };
  });
}
