import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

/** How long the executor took for a step, from its submission to its answer, in milliseconds. Null before the first. */
export interface StepLatency {
  readonly last: number | null;
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p99: number | null;
  readonly max: number | null;
}

/** The distribution of step latencies since the start, in microseconds inside. */
export class StepTimes {
  readonly #histogram: RecordableHistogram = createHistogram();
  #lastMs = -1;

  record(ms: number): void {
    this.#lastMs = Math.max(0, ms);
    // The histogram begins at 1.
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
