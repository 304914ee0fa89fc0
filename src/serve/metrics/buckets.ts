/** Upper bounds of vLLM's histograms, in the units of their names. */
export const BOUNDS = {
  firstToken: [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160,
    640, 2560,
  ],
  betweenTokens: [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
  ],
  request: [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680],
  iteration: [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384],
  choices: [1, 2, 5, 10, 20],
} as const;

/** 1, 2, 5, 10, 20, 50, … up to a number of tokens, as in vLLM's histograms of lengths. */
export function tokenBounds(most: number): number[] {
  const bounds: number[] = [];
  for (let power = 1; power <= most; power *= 10)
    for (const digit of [1, 2, 5]) if (digit * power <= most) bounds.push(digit * power);
  return bounds;
}

/**
 * The buckets of a histogram. Observing a value allocates nothing, so that it can be done for each
 * token.
 */
export class Buckets {
  readonly bounds: readonly number[];
  /**
   * By bound: the number of values up to the bound and above the previous one. The last entry
   * counts values above all bounds.
   */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let at = 0;
    while (at < this.bounds.length && value > this.bounds[at]) at++;
    this.#counts[at]++;
    this.#sum += value;
  }

  get sum(): number {
    return this.#sum;
  }

  /** By bound: the number of values up to the bound. The last entry counts all values. */
  cumulated(): number[] {
    let total = 0;
    return Array.from(this.#counts, (count) => {
      total += count;
      return total;
    });
  }
}
