import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { Distribution } from '../../../report/charts/distribution.js';

/** Percentiles of a quantity, in its own unit; null without values. */
export interface Percentiles {
  count: number;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  max: number | null;
}

/** Values are kept as whole numbers of thousandths of the unit, with three significant digits. */
const STEPS_PER_UNIT = 1000;

/** A histogram of non-negative numbers in constant memory, exact to 1/1000 of the unit or 0.1 %. */
export class Histogram {
  /** The same values in bars, for charts. */
  readonly distribution = new Distribution();
  readonly #histogram: RecordableHistogram = createHistogram({ figures: 3 });
  #max = 0;

  /** Records one value, >= 0. */
  record(value: number): void {
    // Node's histogram takes integers from 1 on.
    this.#histogram.record(Math.max(1, Math.round(value * STEPS_PER_UNIT)));
    this.distribution.record(value);
    if (value > this.#max) this.#max = value;
  }

  percentiles(): Percentiles {
    const { count } = this.#histogram;
    if (count === 0) return { count, p50: null, p90: null, p99: null, max: null };
    const max = Math.round(this.#max * STEPS_PER_UNIT) / STEPS_PER_UNIT;
    // Node's histogram rounds up. A percentile must not be above the largest value.
    const at = (percent: number): number =>
      Math.min(max, this.#histogram.percentile(percent) / STEPS_PER_UNIT);
    return { count, p50: at(50), p90: at(90), p99: at(99), max };
  }
}
