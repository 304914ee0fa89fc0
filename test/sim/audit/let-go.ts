import type { Sight } from './facts.js';
import type { Turns } from './turns.js';

interface Gone {
  readonly handle: number;
  readonly block: number;
  readonly group: number;
  readonly place: number;
  /** The step whose planning let it go. */
  readonly step: number;
}

/**
 * Blocks that steps in flight have let go of the requests that they run: blocks left of a window, and states that newer ones followed. An older step may
 * have read such a block, or written it, and somebody may have found it since.
 */
export class LetGo {
  readonly #turns: Turns;
  #gone: Gone[] = [];

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  /** A step was planned. Called before `Turns` sees the state after it. */
  planned(step: number, { requests }: Sight): void {
    for (const { handle, rows } of requests) {
      const before = this.#turns.of(handle).rows;
      for (const [g, row] of rows.entries()) {
        for (const [place, block] of (before[g] ?? []).entries())
          if (block !== 0 && row[place] === 0) this.#gone.push({ handle, block, group: g, place, step });
      }
    }
  }

  /** This step is updated: the steps behind it are in flight. */
  updated(step: number): void {
    this.#gone = this.#gone.filter((gone) => gone.step > step);
  }

  /** Blocks of a request that were released in this step or later ones. */
  of(handle: number, since: number): readonly number[] {
    return this.placesOf(handle, since).map(({ block }) => block);
  }

  /** The same with their places. */
  placesOf(handle: number, since: number): readonly Gone[] {
    return this.#gone.filter((gone) => gone.handle === handle && gone.step >= since);
  }
}
