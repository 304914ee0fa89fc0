import { chance, mix } from '../../../base/random.js';

/** Streams of draws: whether a request is aborted, and when. */
const WHETHER = 1;
const WHEN = 2;
/** Weight of one finished request in the running mean `#stretch`. */
const STRETCH_WEIGHT = 0.05;

/**
 * Decides which requests are aborted, and when, in virtual time. The seed and the index of a
 * request alone decide whether it is aborted. The moment is uniform over the expected life of the
 * request. This is its time alone in the engine, times the factor (`#stretch`) by which recent
 * requests lived longer than alone. Under any load, aborts therefore hit requests that wait,
 * prefill and decode.
 */
export class AbortPlan {
  readonly #rate: number;
  readonly #seed: number;
  #stretch = 1;
  /**
   * Latest deadline first, so that the next one is popped from the end. At its deadline a request
   * is aborted.
   */
  readonly #deadlines: { atMs: number; index: number }[] = [];

  /** @param rate fraction of the requests to abort, 0 to 1 */
  constructor(rate: number, seed: number) {
    this.#rate = rate;
    this.#seed = seed;
  }

  /**
   * When request `index`, which arrived at `arrivalMs` and takes `aloneMs` alone, is to be aborted;
   * null = never.
   */
  draw(index: number, arrivalMs: number, aloneMs: number): number | null {
    if (chance(mix(this.#seed, WHETHER), index) >= this.#rate) return null;
    return arrivalMs + chance(mix(this.#seed, WHEN), index) * aloneMs * this.#stretch;
  }

  /** Adds a deadline in the future. */
  push(atMs: number, index: number): void {
    let low = 0;
    let high = this.#deadlines.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#deadlines[middle].atMs > atMs) low = middle + 1;
      else high = middle;
    }
    this.#deadlines.splice(low, 0, { atMs, index });
  }

  /** The index of the next request whose deadline has passed, or -1. */
  pop(nowMs: number): number {
    const next = this.#deadlines.at(-1);
    if (next === undefined || next.atMs > nowMs) return -1;
    this.#deadlines.pop();
    return next.index;
  }

  /** Adds a finished request to the running mean of the stretch. */
  observe(livedMs: number, aloneMs: number): void {
    this.#stretch += STRETCH_WEIGHT * (livedMs / aloneMs - this.#stretch);
  }
}
