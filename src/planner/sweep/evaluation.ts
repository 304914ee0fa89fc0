// A fleet under a load; the load at which it breaks its objectives.
import { createHash } from 'node:crypto';
import type { Workload } from '../../workload/workload.js';
import type { RequestTimes } from '../run/engine-run.js';
import { type LatencySummary, latenciesOf, summarise } from '../run/summary.js';
import type { Pool } from './pool.js';
import { type Condition, strain } from './slo.js';
import type { Fleet, TaskResult } from './task.js';

/** The result of a fleet. */
export interface FleetRun {
  readonly latencies: LatencySummary;
  /** The largest latency as a fraction of its bound; at most 1: the objective is met. */
  readonly strain: number;
  /** The same of the requests that arrive in each part of the trace's time, if parts were asked for. */
  readonly parts: readonly number[];
  /** The first so many requests of the trace were run. */
  readonly requests: number;
  /** Tokens generated per second, from the first arrival to the last token. */
  readonly tokensPerSecond: number;
  readonly steps: number;
  /** Fraction of the steps outside the profile's measurements. */
  readonly extrapolated: number;
  readonly preemptions: number;
  /** The maximum number of requests that ran at once in one engine. */
  readonly peakRunning: number;
  /** Requests that fit into no engine. Any such request misses the objective. */
  readonly refused: number;
  /** Digest of the states of all engines, 16 hex digits. */
  readonly digest: string;
}

/** Multiplies each digest differently, so that swapped engines change the sum. */
const ODD = 0x9e3779b97f4a7c15n;
const WORD = (1n << 64n) - 1n;

/** Runs of an interrupted plan, and where new runs are kept. */
export interface Memory {
  /** By the keys of `onRun`. */
  readonly known?: ReadonlyMap<string, FleetRun> | undefined;
  /** Called with each run that was simulated. */
  readonly onRun?: ((key: string, run: FleetRun) => void) | undefined;
}

/** Simulates fleets under the requests of one trace. */
export class Evaluation {
  readonly workload: Workload;
  readonly slo: readonly Condition[];
  readonly #pool: Pool;
  readonly #onRun: Memory['onRun'];
  /** The loads of finalists are runs of comparisons, too. */
  readonly #runs: Map<string, FleetRun>;
  /** Hash of everything that all runs have in common, with the trace hashed once. */
  readonly #common = createHash('sha256');

  /** @param profile of the pool, for the keys of runs */
  constructor(
    pool: Pool,
    workload: Workload,
    profile: unknown,
    slo: readonly Condition[],
    memory: Memory = {},
  ) {
    this.workload = workload;
    this.slo = slo;
    this.#pool = pool;
    this.#onRun = memory.onRun;
    this.#runs = new Map(memory.known);
    const { arrivalMs, inputTokens, outputTokens, hashIds } = workload.columns;
    for (const column of [arrivalMs, inputTokens, outputTokens, hashIds])
      this.#common.update(new Uint8Array(column.buffer, column.byteOffset, column.byteLength));
    this.#common.update(JSON.stringify([profile, slo]));
  }

  /**
   * Simulates a fleet, unless its run is known. Its engines are spread over the threads, and merged
   * in their order.
   * @param parts of the trace's time whose strain is found too
   */
  async run(fleet: Fleet, parts = 0): Promise<FleetRun> {
    const key = this.#keyOf(fleet, parts);
    const known = this.#runs.get(key);
    if (known !== undefined) return known;
    const { engines } = fleet;
    const tasks = Math.min(engines, engines === 1 ? 1 : 4 * this.#pool.threads);
    const at = (task: number): number => Math.floor((task * engines) / tasks);
    const results = await Promise.all(
      Array.from({ length: tasks }, (_, i) => this.#pool.run({ ...fleet, from: at(i), until: at(i + 1) })),
    );
    const run = this.#merge(results, fleet, parts);
    this.#runs.set(key, run);
    this.#onRun?.(key, run);
    return run;
  }

  #keyOf(fleet: Fleet, parts: number): string {
    return this.#common
      .copy()
      .update(jsonOf([fleet, parts]))
      .digest('hex')
      .slice(0, 32);
  }

  #merge(results: readonly TaskResult[], { speedUp, requests }: Fleet, parts: number): FleetRun {
    const { workload, slo } = this;
    const times: RequestTimes = {
      firstMs: new Float64Array(workload.length).fill(Number.NaN),
      lastMs: new Float64Array(workload.length).fill(Number.NaN),
    };
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
    const each = latenciesOf(workload, times, speedUp);
    const latencies = summarise(each);
    const refused = sum(({ refused }) => refused);
    const steps = sum(({ steps }) => steps);
    return {
      latencies,
      strain: refused > 0 ? Number.POSITIVE_INFINITY : strain(slo, latencies),
      parts: partsOf(workload, parts).map(({ includes }) => strain(slo, summarise(each, includes))),
      requests,
      tokensPerSecond: endMs === 0 ? 0 : (1000 * tokens) / endMs,
      steps,
      extrapolated: steps === 0 ? 0 : sum(({ stepsOutside }) => stepsOutside) / steps,
      preemptions: sum(({ preemptions }) => preemptions),
      peakRunning: Math.max(...results.map(({ peakRunning }) => peakRunning)),
      refused,
      digest: digest.toString(16).padStart(16, '0'),
    };
  }
}

/** A part of a trace's time. */
export interface TracePart {
  readonly fromMs: number;
  readonly untilMs: number;
  /** Whether a request arrives in it. */
  readonly includes: (index: number) => boolean;
}

/** Cuts the time from the first arrival to the last into equal parts. */
export function partsOf({ arrivalMs, length }: Workload, count: number): TracePart[] {
  const width = arrivalMs[length - 1] / count;
  return Array.from({ length: count }, (_, part) => {
    const fromMs = part * width;
    const untilMs = (part + 1) * width;
    const isLast = part === count - 1;
    return {
      fromMs,
      untilMs,
      includes: (i) => arrivalMs[i] >= fromMs && (arrivalMs[i] < untilMs || isLast),
    };
  });
}

/** JSON of a value whose options may have bigints. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each));
}

/** The highest load that meets an objective. */
export interface Capacity {
  /**
   * Mean requests per second up to which the objective is met; 0 if it is missed at every load that
   * was tried.
   */
  readonly requestsPerSecond: number;
  /**
   * True: the objective was met at the highest load that was tried, 64 times the trace's own. The
   * trace is too short to miss it.
   */
  readonly isLeast: boolean;
  /** The run at that load, or at the least load that was tried. */
  readonly run: FleetRun;
  /** All loads that were tried, ascending, with their strain. */
  readonly tried: readonly { readonly requestsPerSecond: number; readonly strain: number }[];
}

/** Bounds of the search, as multiples of the trace's own rate, and the precision of its result. */
export const LEAST_LOAD = 1 / 64;
export const MOST_LOAD = 64;
const NEAR = 1.05;

/**
 * Finds by bisection how fast requests may arrive. Near that load latencies grow without bounds, so
 * the load says more than a latency.
 */
export async function findCapacity(
  evaluation: Evaluation,
  fleet: Omit<Fleet, 'speedUp' | 'requests'>,
): Promise<Capacity> {
  const rate = requestRate(evaluation.workload);
  const requests = evaluation.workload.length;
  const tried: { requestsPerSecond: number; strain: number }[] = [];
  const look = async (speedUp: number): Promise<FleetRun> => {
    const run = await evaluation.run({ ...fleet, speedUp, requests });
    tried.push({ requestsPerSecond: rate * speedUp, strain: run.strain });
    return run;
  };
  let low = 0;
  let high = MOST_LOAD * 2;
  let at = 1;
  let run = await look(at);
  let best = run;
  // First by doubling, from the trace's own rate, then by bisection.
  for (;;) {
    if (run.strain <= 1) {
      low = at;
      best = run;
      if (at >= MOST_LOAD) break;
    } else {
      high = at;
      if (low === 0) best = run;
      if (at <= LEAST_LOAD) break;
    }
    if (low === 0) at = high / 2;
    else if (high > MOST_LOAD) at = low * 2;
    else if (high / low > NEAR) at = Math.sqrt(low * high);
    else break;
    run = await look(at);
  }
  tried.sort((a, b) => a.requestsPerSecond - b.requestsPerSecond);
  return { requestsPerSecond: rate * low, isLeast: low >= MOST_LOAD, run: best, tried };
}

/** Mean requests a second of a trace. */
export function requestRate({ arrivalMs, length }: Workload): number {
  return (1000 * (length - 1)) / arrivalMs[length - 1];
}
