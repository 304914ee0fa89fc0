import { Rng } from './rng.js';
import type { Tally } from './run.js';

/** A setup with the probability of each fault where it can happen. */
export interface Faulty<F extends string> {
  readonly seed: number;
  readonly faults: Record<F, number>;
}

/** All chance of one run: the dice of each of its parts, and whether a fault strikes. Counts what happened. */
export class Dice<S extends Faulty<F>, F extends string> {
  readonly setup: S;
  /** No faults any more, and no new work. */
  isCalm = false;
  readonly tally: Tally = {};
  readonly #prefix: string;
  readonly #streams = new Map<string, Rng>();

  /** @param prefix of the names of its streams */
  constructor(setup: S, prefix: string) {
    this.setup = setup;
    this.#prefix = prefix;
  }

  /** The dice of one part; the same in every run of the seed. */
  rng(name: string): Rng {
    const known = this.#streams.get(name);
    if (known !== undefined) return known;
    const made = new Rng(this.setup.seed, this.#prefix + name);
    this.#streams.set(name, made);
    return made;
  }

  strikes(fault: F, rng: Rng): boolean {
    const struck = !this.isCalm && rng.chance(this.setup.faults[fault]);
    if (struck) this.count(`fault ${fault}`);
    return struck;
  }

  count(what: string, times = 1): void {
    this.tally[what] = (this.tally[what] ?? 0) + times;
  }
}
