/**
 * A process with at most this many milliseconds between two looks counts as awake. It is a few
 * ticks of a busy process.
 */
const AWAKE_MS = 200;

/**
 * A clock that stops while its process is suspended. A process that was stopped or busy has not
 * read the messages that arrived meanwhile. It therefore cannot know which party kept it waiting.
 * Between two looks, the clock stops if they are further apart than `limitMs`.
 *
 * It must be read often: `nextLook` is the latest time for it.
 */
export class AwakeClock {
  /** Maximum milliseconds between two looks of a process that is awake. */
  readonly limitMs: number;
  readonly #real: () => number;
  #lookedAt: number;
  #sleptMs = 0;

  /**
   * @param real the underlying clock, in milliseconds
   * @param waitMs the shortest wait that is measured; a gap of a fourth of it counts as sleep
   */
  constructor(real: () => number, waitMs: number) {
    this.limitMs = Math.max(waitMs / 4, AWAKE_MS);
    this.#real = real;
    this.#lookedAt = real();
  }

  /** Returns the milliseconds of this clock. Every call is a look. */
  now(): number {
    const now = this.#real();
    const gap = now - this.#lookedAt;
    if (gap > this.limitMs) this.#sleptMs += gap;
    this.#lookedAt = now;
    return now - this.#sleptMs;
  }

  /** When the clock must be read again, in milliseconds of the real clock. */
  get nextLook(): number {
    return this.#lookedAt + this.limitMs;
  }

  /** Converts a time of this clock to the real clock, assuming that it does not stop again. */
  toReal(time: number): number {
    return time + this.#sleptMs;
  }
}
