import { Violation } from '../audit/facts.js';
import { Dice, type Faulty } from './dice.js';
import { Journal } from './journal.js';

/** Common data of one run: clock, dice, journal, and the first violation. */
export class SeededRun<S extends Faulty<F>, F extends string> extends Dice<S, F> {
  /** The simulated clock, in milliseconds. */
  now = 1000;
  readonly #journal = new Journal(400);
  #violation: Violation | null = null;

  /** The last lines, oldest first. */
  get journal(): readonly string[] {
    return this.#journal.lines;
  }

  note(line: string): void {
    this.#journal.note(this.now, line);
  }

  /**
   * Something happened that must not. The first violation is kept and thrown by `check`, since the
   * caller of a callback may swallow the error.
   */
  broke(invariant: string, message: string): void {
    if (this.#violation !== null) return;
    this.note(`${invariant}: ${message}`);
    this.#violation = new Violation(invariant, message);
  }

  /** @throws Violation the first that was found */
  check(): void {
    if (this.#violation !== null) throw this.#violation;
  }
}
