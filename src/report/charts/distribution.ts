/**
 * Bars of a distribution: bar i spans `edges[i]` to `edges[i + 1]`. Edges are evenly spaced on a
 * log scale.
 */
export interface Bars {
  edges: number[];
  /** How many values fell into each bar. */
  counts: number[];
}

/** The finest bars: PER_DECADE of them per factor of ten, from 10^LOW to 10^HIGH. */
const PER_DECADE = 60;
const LOW = -3;
const HIGH = 12;
/** How many of the finest bars may be merged into one, to limit the number of bars. */
const MERGES = [1, 2, 3, 5, 10, 20, 60, 180, 900] as const;

/**
 * Counts non-negative numbers by size, in constant memory. A bar is 4 % wide; values beyond the
 * outermost bars count there.
 */
export class Distribution {
  readonly #counts = new Float64Array((HIGH - LOW) * PER_DECADE);

  /** Counts one value, >= 0. */
  record(value: number): void {
    const bar = Math.floor((Math.log10(value) - LOW) * PER_DECADE);
    this.#counts[Math.min(this.#counts.length - 1, Math.max(0, bar))]++;
  }

  /** The bars that hold all values, at most `most` >= 1 of them; none if there are no values. */
  bars(most: number): Bars {
    const first = this.#counts.findIndex((count) => count > 0);
    if (first < 0) return { edges: [], counts: [] };
    const last = this.#counts.findLastIndex((count) => count > 0);
    const merge = MERGES.find((size) => Math.floor(last / size) - Math.floor(first / size) < most) ?? 900;
    const edge = (bar: number): number => 10 ** (LOW + (bar * merge) / PER_DECADE);
    const bars: Bars = { edges: [edge(Math.floor(first / merge))], counts: [] };
    for (let bar = Math.floor(first / merge); bar <= Math.floor(last / merge); bar++) {
      const counts = this.#counts.subarray(bar * merge, (bar + 1) * merge);
      bars.counts.push(counts.reduce((a, b) => a + b, 0));
      bars.edges.push(edge(bar + 1));
    }
    return bars;
  }
}
