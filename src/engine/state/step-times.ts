import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

/**
 * Time from a step's submission to the executor's answer, in milliseconds, since the start. Every field is null before the first
 * step.
 */
export interface StepLatency {
  /** The latency of the last processed step. */
  readonly last: number | null;
  /** Mean over all steps. */
  readonly mean: number | null;
  /** Median of all steps. */
  readonly p50: number | null;
  /** 99th percentile of all steps. */
  readonly p99: number | null;
  /** Largest of all steps. */
  readonly max: number | null;
}

/** The distribution of step latencies since the start. Kept in microseconds, read in milliseconds. */
export class StepTimes {
  readonly #histogram: RecordableHistogram = createHistogram();
  #lastMs = -1;

  record(ms: number): void {
    this.#lastMs = Math.max(0, ms);
    // The histogram accepts integers from 1 on.
    this.#histogram.record(Math.max(1, Math.round(1000 * this.#lastMs)));
  }

  read(): StepLatency {
    const histogram = this.#histogram;
    if (histogram.count === 0) return { last: null, mean: null, p50: null, p99: null, max: null };
    return {
      last: this.#lastMs,
      mean: histogram.mean / 1000,
      p50: histogram.percentile(50) / 1000,
      p99: histogram.percentile(99) / 1000,
      max: histogram.max / 1000,
    };
  }
}
