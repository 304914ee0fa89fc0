/** Length of the first pause and of the longest pause, in milliseconds. */
export interface BreakerTimes {
  readonly pauseMs: number;
  readonly maxPauseMs: number;
}

/**
 * Keeps calls away from a service that is down. After a failure, no call passes for a pause. Then
 * one call passes as a probe, and its result decides. The pause doubles from probe to probe.
 */
export class Breaker {
  readonly #now: () => number;
  readonly #times: BreakerTimes;
  /** Length of the present pause; 0 = closed, so every call passes. */
  #pause = 0;
  /** When the present pause ends. */
  #until = 0;
  #probing = false;

  constructor(now: () => number, times: BreakerTimes) {
    this.#now = now;
    this.#times = times;
  }

  /**
   * `closed`: every call passes. `open`: no call passes. `probing`: one call is under way, and its
   * result decides.
   */
  get state(): 'closed' | 'open' | 'probing' {
    if (this.#pause === 0) return 'closed';
    return this.#probing ? 'probing' : 'open';
  }

  /** Whether a call may be made now. */
  get isPassable(): boolean {
    return this.#pause === 0 || (!this.#probing && this.#now() >= this.#until);
  }

  /**
   * Notes that a call is made, after `isPassable` allowed it. If the breaker is not closed, this
   * call is the probe.
   */
  pass(): void {
    this.#probing = this.#pause > 0;
  }

  /** Notes that a call succeeded. */
  good(): void {
    this.#pause = 0;
    this.#probing = false;
  }

  /**
   * Notes that a call failed. A call that began before a pause and fails during it does not
   * lengthen the pause.
   */
  bad(): void {
    if (this.#pause > 0 && !this.#probing) return;
    const { pauseMs, maxPauseMs } = this.#times;
    this.#pause = this.#pause === 0 ? pauseMs : Math.min(2 * this.#pause, maxPauseMs);
    this.#until = this.#now() + this.#pause;
    this.#probing = false;
  }
}
