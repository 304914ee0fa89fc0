import { AwakeClock } from '../time/awake-clock.js';
import type { StageFigures } from '../transport/messages.js';

/**
 * `pingMs`: milliseconds between two pings. `deadMs`: milliseconds without an answer after which a
 * stage counts as gone.
 */
export interface LivenessLimits {
  readonly pingMs: number;
  readonly deadMs: number;
}

/**
 * Tracks which stages answer. A stage is pinged every `pingMs`. It counts as gone if a ping stays
 * unanswered for `deadMs`, not counting times in which this process was asleep.
 */
export class Liveness {
  readonly #limits: LivenessLimits;
  readonly #now: () => number;
  /** The clock for measuring waits for answers. */
  readonly #awake: AwakeClock;
  /** When each stage last answered, in milliseconds of `#now`. */
  readonly #heardAt: number[];
  readonly #figures: (StageFigures | null)[];
  /** Number of the last ping that each stage has answered. */
  readonly #answered: number[];
  /** Since when each stage owes an answer, in milliseconds of `#awake`; Infinity: none is owed. */
  readonly #owesSince: number[];
  #pingedAt = Number.NEGATIVE_INFINITY;
  #number = 0;

  constructor(numStages: number, limits: LivenessLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
    this.#awake = new AwakeClock(now, limits.deadMs);
    this.#heardAt = Array.from({ length: numStages }, now);
    this.#figures = Array.from({ length: numStages }, () => null);
    this.#answered = Array.from({ length: numStages }, () => 0);
    this.#owesSince = Array.from({ length: numStages }, () => Number.POSITIVE_INFINITY);
  }

  /** Number of pings so far. */
  get numPings(): number {
    return this.#number;
  }

  /** The number of the next ping if one is due; 0 otherwise. */
  nextPing(): number {
    const now = this.#now();
    if (this.#pingedAt + this.#limits.pingMs > now) return 0;
    const since = this.#awake.now();
    for (const [stage, owesSince] of this.#owesSince.entries())
      if (owesSince === Number.POSITIVE_INFINITY) this.#owesSince[stage] = since;
    this.#pingedAt = now;
    return ++this.#number;
  }

  /**
   * A stage has answered. @returns whether the answer is new: an answer may arrive twice, or after
   * a later one
   */
  heard(stage: number, number: number, figures: StageFigures): boolean {
    if (number <= this.#answered[stage] || number > this.#number) return false;
    this.#answered[stage] = number;
    this.#heardAt[stage] = this.#now();
    this.#owesSince[stage] = number === this.#number ? Number.POSITIVE_INFINITY : this.#awake.now();
    this.#figures[stage] = figures;
    return true;
  }

  /** Milliseconds for which a stage has been silent. */
  silentFor(stage: number): number {
    return this.#now() - this.#heardAt[stage];
  }

  isGone(stage: number): boolean {
    return this.#owesSince[stage] + this.#limits.deadMs <= this.#awake.now();
  }

  /** The stage's figures from its last answer; null: it has not answered yet. */
  figuresOf(stage: number): StageFigures | null {
    return this.#figures[stage];
  }

  /**
   * When the next ping or the next check of this process's own wakefulness is due, in milliseconds
   * of the clock.
   */
  get nextDeadline(): number {
    return Math.min(this.#pingedAt + this.#limits.pingMs, this.#awake.nextLook);
  }
}
