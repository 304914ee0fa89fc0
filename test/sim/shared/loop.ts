import { Violation } from '../audit/facts.js';
import type { Faulty } from './dice.js';
import { describe, shrink } from './failure.js';
import type { Failure, Outcome, RunOptions, Tally } from './run.js';

/** One run, from its setup on. */
interface Life {
  /** Events so far. */
  readonly step: number;
  /** The last lines, oldest first. */
  readonly journal: readonly string[];
  readonly tally: Tally;
  /** Events with faults, then none and no new work, until nothing is left. @throws Violation */
  run(numEvents: number): void | Promise<void>;
  dispose(): void;
}

/** A simulator: draws a setup from a seed, and lives it. */
export class Loop<S extends Faulty<F>, F extends string, L extends Life = Life> {
  readonly name: 'scheduler' | 'engine' | 'pipeline';
  readonly #faults: readonly F[];
  /** Everything about a run, from its seed alone. */
  readonly draw: (seed: number) => S;
  readonly live: (setup: S) => L;

  constructor(
    name: 'scheduler' | 'engine' | 'pipeline',
    faults: readonly F[],
    draw: (seed: number) => S,
    live: (setup: S) => L,
  ) {
    this.name = name;
    this.#faults = faults;
    this.draw = draw;
    this.live = live;
  }

  get faults(): readonly string[] {
    return this.#faults;
  }

  /** Runs one seed to its end, or to the first violation. */
  async run(seed: number, { steps, without }: RunOptions<F>): Promise<Outcome<S, F>> {
    const setup = this.draw(seed);
    for (const fault of without) setup.faults[fault] = 0;
    let life: L | null = null;
    try {
      life = this.live(setup);
      await life.run(steps);
      return { failure: null, tally: life.tally };
    } catch (error) {
      return { failure: failureOf(setup, without, life, error), tally: {} };
    } finally {
      life?.dispose();
    }
  }

  /**
   * Runs one seed.
   * @param without kinds of faults that are left out; those that it does not know are ignored
   * @param flags of the command that shows a failure again, besides the loop's
   * @returns in words what broke, null if nothing did
   */
  async tell(
    seed: number,
    { steps, without }: RunOptions<string>,
    shrinks: boolean,
    flags: readonly string[],
  ): Promise<string | null> {
    const known = this.#faults.filter((fault) => without.includes(fault));
    const { failure } = await this.run(seed, { steps, without: known });
    if (failure === null) return null;
    const told = shrinks ? await shrink(failure, (again, options) => this.run(again, options)) : failure;
    return describe(told, ['--loop', this.name, ...flags]);
  }
}

/** @param life null if it broke before it began */
function failureOf<S extends Faulty<F>, F extends string>(
  setup: S,
  without: readonly F[],
  life: Life | null,
  error: unknown,
): Failure<S, F> {
  const isViolation = error instanceof Violation;
  return {
    seed: setup.seed,
    step: life?.step ?? 0,
    invariant: isViolation ? error.invariant : 'simulator',
    message: isViolation ? error.message : String((error as Error).stack),
    journal: life?.journal ?? [],
    setup,
    without,
  };
}
