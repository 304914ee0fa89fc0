/** Milliseconds of the first pause, and of the longest one. */
export interface BreakerTimes {
  readonly pauseMs: number;
  readonly maxPauseMs: number;
}

/**
 * Keeps calls from something that is down. After a failure nothing is let through for a pause; then one call is let
 * through as a probe, and its end decides. Pauses double from probe to probe.
 */
export class Breaker {
  readonly #now: () => number;
  readonly #times: BreakerTimes;
  /** Length of the present pause; 0 = closed, so that everything is let through. */
  #pause = 0;
  /** When the present pause ends. */
  #until = 0;
  #probing = false;

  constructor(now: () => number, times: BreakerTimes) {
    this.#now = now;
    this.#times = times;
  }

  /** `closed`: everything passes. `open`: nothing does. `probing`: one call is under way that will tell. */
  get state(): 'closed' | 'open' | 'probing' {
    if (this.#pause === 0) return 'closed';
    return this.#probing ? 'probing' : 'open';
  }

  /** Whether a call may be made now. */
  get isPassable(): boolean {
    return this.#pause === 0 || (!this.#probing && this.#now() >= this.#until);
  }

  /** A call is made, as `isPassable` allowed. If the breaker is not closed, that call is the probe. */
  pass(): void {
    this.#probing = this.#pause > 0;
  }

  /** A call went well. */
  good(): void {
    this.#pause = 0;
    this.#probing = false;
  }

  /** A call failed. Calls that began before the pause and fail in it do not make it longer. */
  bad(): void {
    if (this.#pause > 0 && !this.#probing) return;
    const { pauseMs, maxPauseMs } = this.#times;
    this.#pause = this.#pause === 0 ? pauseMs : Math.min(2 * this.#pause, maxPauseMs);
    this.#until = this.#now() + this.#pause;
    this.#probing = false;
  }
}
