// Latencies of requests, and their quantiles.
import type { Workload } from '../../workload/workload.js';
import type { RequestTimes } from './engine-run.js';

/** Statistics of a latency, in milliseconds; null if no request has a value. */
export interface Quantiles {
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

/** The latencies that an objective can bound. */
export const LATENCIES = ['ttft', 'tpot', 'e2e'] as const;
export type Latency = (typeof LATENCIES)[number];
export const STATISTICS = ['mean', 'p50', 'p90', 'p95', 'p99'] as const;
export type Statistic = (typeof STATISTICS)[number];

/** Latencies of requests, from their arrival. */
export type LatencySummary = Readonly<Record<Latency, Quantiles>>;

/**
 * The latencies of each request, by its index, in milliseconds; NaN: none. TPOT is the time between
 * tokens, of requests with two or more.
 */
export function latenciesOf(
  workload: Workload,
  { firstMs, lastMs }: RequestTimes,
  speedUp = 1,
): Record<Latency, Float64Array> {
  const { length, arrivalMs, outputTokens } = workload;
  const ttft = new Float64Array(length);
  const tpot = new Float64Array(length);
  const e2e = new Float64Array(length);
  for (let i = 0; i < length; i++) {
    const arrival = arrivalMs[i] / speedUp;
    ttft[i] = firstMs[i] - arrival;
    e2e[i] = lastMs[i] - arrival;
    tpot[i] = outputTokens[i] > 1 ? (lastMs[i] - firstMs[i]) / (outputTokens[i] - 1) : Number.NaN;
  }
  return { ttft, tpot, e2e };
}

/** Summarises the latencies of some requests. @param includes selects the requests; default: all */
export function summarise(
  latencies: Readonly<Record<Latency, Float64Array>>,
  includes: (index: number) => boolean = () => true,
): LatencySummary {
  const of = (column: Float64Array): Quantiles =>
    quantilesOf(column.filter((value, i) => value >= 0 && includes(i)));
  return { ttft: of(latencies.ttft), tpot: of(latencies.tpot), e2e: of(latencies.e2e) };
}

/** @param values are sorted in place */
export function quantilesOf(values: Float64Array): Quantiles {
  if (values.length === 0) return { mean: null, p50: null, p90: null, p95: null, p99: null };
  values.sort();
  let sum = 0;
  for (const value of values) sum += value;
  return {
    mean: sum / values.length,
    p50: quantile(values, 0.5),
    p90: quantile(values, 0.9),
    p95: quantile(values, 0.95),
    p99: quantile(values, 0.99),
  };
}

/** A quantile of ascending values, by linear interpolation. */
export function quantile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.ceil(at);
  return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}
