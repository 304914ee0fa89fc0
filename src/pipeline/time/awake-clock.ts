/** Milliseconds between two looks within which a process always counts as awake: a few ticks of a busy one. */
const AWAKE_MS = 200;

/**
 * A clock that stands still while its process does: one that was stopped, or busy for long, has not read what came meanwhile, so it
 * cannot know who kept it waiting. Between two looks it stands still if they are further apart than `limitMs`.
 *
 * It must be looked at often: `nextLook` says by when.
 */
export class AwakeClock {
  /** Most milliseconds between two looks of a process that is awake. */
  readonly limitMs: number;
  readonly #real: () => number;
  #lookedAt: number;
  #sleptMs = 0;

  /**
   * @param real the clock that never stands still, in milliseconds
   * @param waitMs the shortest wait that is measured: a gap of a fourth of it counts as sleep
   */
  constructor(real: () => number, waitMs: number) {
    this.limitMs = Math.max(waitMs / 4, AWAKE_MS);
    this.#real = real;
    this.#lookedAt = real();
  }

  /** Milliseconds of this clock. Every call is a look. */
  now(): number {
    const now = this.#real();
    const gap = now - this.#lookedAt;
    if (gap > this.limitMs) this.#sleptMs += gap;
    this.#lookedAt = now;
    return now - this.#sleptMs;
  }

  /** When it must be looked at again, in milliseconds of the real clock. */
  get nextLook(): number {
    return this.#lookedAt + this.limitMs;
  }

  /** A time of this clock, in milliseconds of the real one, if it stands still no more. */
  toReal(time: number): number {
    return time + this.#sleptMs;
  }
}
