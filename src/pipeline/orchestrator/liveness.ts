import type { StageFigures } from '../transport/messages.js';

/** Milliseconds between two pings, and after how many without an answer a stage counts as gone. */
export interface LivenessLimits {
  readonly pingMs: number;
  readonly deadMs: number;
}

/** Which stages answer. A stage is asked every `pingMs`, and counts as gone when it has not answered for `deadMs`. */
export class Liveness {
  readonly #limits: LivenessLimits;
  readonly #now: () => number;
  readonly #heardAt: number[];
  readonly #figures: (StageFigures | null)[];
  #pingedAt = Number.NEGATIVE_INFINITY;
  #number = 0;

  constructor(numStages: number, limits: LivenessLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
    this.#heardAt = Array.from({ length: numStages }, now);
    this.#figures = Array.from({ length: numStages }, () => null);
  }

  /** Pings so far. */
  get numPings(): number {
    return this.#number;
  }

  /** The number of the next ping if one is due; 0 otherwise. */
  nextPing(): number {
    const now = this.#now();
    if (now - this.#pingedAt < this.#limits.pingMs) return 0;
    this.#pingedAt = now;
    return ++this.#number;
  }

  /** A stage has answered. */
  heard(stage: number, figures: StageFigures): void {
    this.#heardAt[stage] = this.#now();
    this.#figures[stage] = figures;
  }

  /** Milliseconds for which a stage has been silent. */
  silentFor(stage: number): number {
    return this.#now() - this.#heardAt[stage];
  }

  isGone(stage: number): boolean {
    return this.silentFor(stage) >= this.#limits.deadMs;
  }

  /** What the stage said of itself with its last answer; null: it has not answered yet. */
  figuresOf(stage: number): StageFigures | null {
    return this.#figures[stage];
  }

  /** When the next ping is due, in milliseconds of the clock. */
  get nextDeadline(): number {
    return this.#pingedAt + this.#limits.pingMs;
  }
}
