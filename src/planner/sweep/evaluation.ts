// A fleet under a load; the load at which it breaks its objectives.
import type { Workload } from '../../workload/workload.js';
import type { RequestTimes } from '../run/engine-run.js';
import { type LatencySummary, latenciesOf, summarise } from '../run/summary.js';
import type { Pool } from './pool.js';
import { type Condition, strain } from './slo.js';
import type { Fleet, TaskResult } from './task.js';

/** The result of a fleet. */
export interface FleetRun {
  readonly latencies: LatencySummary;
  /** The largest latency as a fraction of its bound; at most 1: the agreement is kept. */
  readonly strain: number;
  /** Tokens generated per second, from the first arrival to the last token. */
  readonly tokensPerSecond: number;
  readonly steps: number;
  /** Fraction of the steps outside the profile's measurements. */
  readonly extrapolated: number;
  readonly preemptions: number;
  /** Requests that fit into no engine. Any such request breaks the agreement. */
  readonly refused: number;
  /** Digest of the states of all engines, 16 hex digits. */
  readonly digest: string;
  readonly times: RequestTimes;
}

/** A fleet's result without the times of each request. */
export type PointRun = Omit<FleetRun, 'times'>;

/** Multiplies each digest differently, so that swapped engines change the sum. */
const ODD = 0x9e3779b97f4a7c15n;
const WORD = (1n << 64n) - 1n;

/** Simulates a fleet. Its engines are spread over the threads, and merged in their order. */
export async function runFleet(
  pool: Pool,
  workload: Workload,
  fleet: Fleet,
  slo: readonly Condition[],
): Promise<FleetRun> {
  const { engines, speedUp } = fleet;
  const parts = Math.min(engines, engines === 1 ? 1 : 4 * pool.threads);
  const at = (part: number): number => Math.floor((part * engines) / parts);
  const results = await Promise.all(
    Array.from({ length: parts }, (_, i) => pool.run({ ...fleet, from: at(i), until: at(i + 1) })),
  );
  return merge(results, workload, speedUp, slo);
}

function merge(
  results: readonly TaskResult[],
  workload: Workload,
  speedUp: number,
  slo: readonly Condition[],
): FleetRun {
  const times = { firstMs: new Float64Array(workload.length), lastMs: new Float64Array(workload.length) };
  let tokens = 0;
  let endMs = 0;
  let digest = 0n;
  for (const { indices, firstMs, lastMs, digests } of results) {
    for (const [k, i] of indices.entries()) {
      times.firstMs[i] = firstMs[k];
      times.lastMs[i] = lastMs[k];
      if (!(lastMs[k] >= 0)) continue;
      tokens += workload.outputTokens[i];
      endMs = Math.max(endMs, lastMs[k]);
    }
    for (const each of digests) digest = (digest * ODD + each + 1n) & WORD;
  }
  const sum = (of: (result: TaskResult) => number): number =>
    results.reduce((total, each) => total + of(each), 0);
  const latencies = summarise(latenciesOf(workload, times, speedUp));
  const refused = sum((each) => each.refused);
  const steps = sum((each) => each.steps);
  return {
    latencies,
    strain: refused > 0 ? Number.POSITIVE_INFINITY : strain(slo, latencies),
    tokensPerSecond: endMs === 0 ? 0 : (1000 * tokens) / endMs,
    steps,
    extrapolated: steps === 0 ? 0 : sum((each) => each.stepsOutside) / steps,
    preemptions: sum((each) => each.preemptions),
    refused,
    digest: digest.toString(16).padStart(16, '0'),
    times,
  };
}

/** The load at which an agreement breaks. */
export interface Capacity {
  /**
   * Mean requests a second up to which the agreement is kept; 0 if it breaks at every load that was
   * tried.
   */
  readonly requestsPerSecond: number;
  /**
   * True: the agreement was kept at the highest load that was tried, 64 times the trace's own. The
   * trace is too short to break it.
   */
  readonly isLeast: boolean;
  /** The run at that load, or at the least load that was tried. */
  readonly run: PointRun;
  /** All loads that were tried, ascending, with their strain. */
  readonly tried: readonly { readonly requestsPerSecond: number; readonly strain: number }[];
}

/** Bounds of the search, as multiples of the trace's own rate, and the precision of its result. */
const LEAST = 1 / 64;
const MOST = 64;
const NEAR = 1.05;

/**
 * Finds by bisection how fast requests may arrive. Near that load latencies grow without bounds, so
 * the load says more than a latency.
 */
export async function findCapacity(
  pool: Pool,
  workload: Workload,
  fleet: Omit<Fleet, 'speedUp'>,
  slo: readonly Condition[],
): Promise<Capacity> {
  const rate = requestRate(workload);
  const tried: { requestsPerSecond: number; strain: number }[] = [];
  const look = async (speedUp: number): Promise<PointRun> => {
    const { times: _, ...run } = await runFleet(pool, workload, { ...fleet, speedUp }, slo);
    tried.push({ requestsPerSecond: rate * speedUp, strain: run.strain });
    return run;
  };
  let low = 0;
  let high = MOST * 2;
  let at = 1;
  let run = await look(at);
  let best = run;
  // First by doubling, from the trace's own rate, then by bisection.
  for (;;) {
    if (run.strain <= 1) {
      low = at;
      best = run;
      if (at >= MOST) break;
    } else {
      high = at;
      if (low === 0) best = run;
      if (at <= LEAST) break;
    }
    if (low === 0) at = high / 2;
    else if (high > MOST) at = low * 2;
    else if (high / low > NEAR) at = Math.sqrt(low * high);
    else break;
    run = await look(at);
  }
  tried.sort((a, b) => a.requestsPerSecond - b.requestsPerSecond);
  return { requestsPerSecond: rate * low, isLeast: low >= MOST, run: best, tried };
}

/** Mean requests a second of a trace. */
export function requestRate({ arrivalMs, length }: Workload): number {
  return (1000 * (length - 1)) / arrivalMs[length - 1];
}
