import { Violation } from '../audit/facts.js';
import { Rng } from '../shared/rng.js';
import type { Tally } from '../shared/run.js';
import type { PipelineFault, PipelineSetup } from './setup.js';

const KEPT_LINES = 400;

/** What all parts of one run share: clock, dice, journal, and the first violation. */
export class World {
  readonly setup: PipelineSetup;
  /** The simulated clock, in milliseconds. */
  now = 1000;
  /** No faults any more, and no new work. */
  isCalm = false;
  /** Since when, in milliseconds. */
  calmAt = Number.POSITIVE_INFINITY;
  readonly journal: string[] = [];
  readonly tally: Tally = {};
  readonly #streams = new Map<string, Rng>();
  #violation: Violation | null = null;

  constructor(setup: PipelineSetup) {
    this.setup = setup;
  }

  /** The dice of one part; the same in every run of the seed. */
  rng(name: string): Rng {
    const known = this.#streams.get(name);
    if (known !== undefined) return known;
    const made = new Rng(this.setup.seed, `pipeline ${name}`);
    this.#streams.set(name, made);
    return made;
  }

  strikes(fault: PipelineFault, rng: Rng): boolean {
    const struck = !this.isCalm && rng.chance(this.setup.faults[fault]);
    if (struck) this.count(`fault ${fault}`);
    return struck;
  }

  note(line: string): void {
    this.journal.push(`${this.now}: ${line}`);
    if (this.journal.length > 2 * KEPT_LINES) this.journal.splice(0, KEPT_LINES);
  }

  count(what: string, times = 1): void {
    this.tally[what] = (this.tally[what] ?? 0) + times;
  }

  /** Something happened that must not: the first is kept, since a callback's caller may swallow what it throws. */
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
