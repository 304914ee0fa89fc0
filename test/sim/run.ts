import { Violation } from './audit/facts.js';
import { drawSetup, type Fault, type Setup } from './scheduler/setup.js';
import { Simulation, type Tally } from './scheduler/simulation.js';

export interface RunOptions {
  /** Events with faults. */
  steps: number;
  /** Kinds of faults that are left out. */
  without: readonly Fault[];
}

/** What went wrong in one run. */
export interface Failure<S = Setup, F extends string = Fault> {
  seed: number;
  /** The event at which it did; after the last one it is the phase without faults. */
  step: number;
  invariant: string;
  message: string;
  /** The last events before it. */
  journal: readonly string[];
  setup: S;
  without: readonly F[];
}

/** Runs one seed to its end, or to what breaks first. */
export function runSeed(
  seed: number,
  { steps, without }: RunOptions,
): { failure: Failure | null; tally: Tally } {
  const setup = drawSetup(seed);
  for (const fault of without) setup.faults[fault] = 0;
  let simulation: Simulation | null = null;
  try {
    simulation = new Simulation(setup);
    simulation.run(steps);
    return { failure: null, tally: simulation.tally() };
  } catch (error) {
    const isViolation = error instanceof Violation;
    const failure: Failure = {
      seed,
      step: simulation?.step ?? 0,
      invariant: isViolation ? error.invariant : 'simulator',
      message: isViolation ? error.message : String((error as Error).stack),
      journal: simulation?.world.journal ?? [],
      setup,
      without,
    };
    return { failure, tally: {} };
  } finally {
    simulation?.world.dispose();
  }
}

/**
 * Makes a failure smaller: fewer events, then fewer kinds of faults, as long as the same invariant breaks in what `run` makes of it. Without a kind
 * of fault everything that is drawn after it moves, so that a smaller failure is another one of the same kind.
 */
export async function shrink<S extends Faulty<F>, F extends string>(
  failure: Failure<S, F>,
  run: (
    seed: number,
    options: { steps: number; without: readonly F[] },
  ) => Result<S, F> | Promise<Result<S, F>>,
): Promise<Failure<S, F>> {
  const rerun = async (steps: number, without: readonly F[]): Promise<Failure<S, F> | null> => {
    const again = (await run(failure.seed, { steps, without })).failure;
    return again?.invariant === failure.invariant ? again : null;
  };
  let best = (await rerun(failure.step, failure.without)) ?? failure;
  for (const fault of Object.keys(failure.setup.faults) as F[]) {
    if (best.setup.faults[fault] === 0) continue;
    best = (await rerun(best.step, [...best.without, fault])) ?? best;
  }
  return best;
}

/** A setup with the probability of each fault. */
interface Faulty<F extends string> {
  seed: number;
  faults: Record<F, number>;
}

interface Result<S, F extends string> {
  failure: Failure<S, F> | null;
}

/**
 * Seed, step, what broke, what led to it, and the command that shows it again.
 * @param flags of that command, besides seed, steps and faults that were left out
 */
export function describe<S extends object, F extends string>(
  failure: Failure<S, F>,
  flags: readonly string[],
): string {
  const { seed, step, message, journal, setup, without } = failure;
  const { seed: _, ...rest } = setup as S & { seed?: number };
  const left = without.length > 0 ? ['--without', without.join()] : [];
  const command = [
    '--first',
    `${seed}`,
    '--seeds',
    '1',
    '--steps',
    `${Math.max(1, step)}`,
    ...flags,
    ...left,
  ];
  return [
    `seed ${seed}, step ${step}: ${message}`,
    JSON.stringify(rest),
    ...journal.slice(-30).map((line) => `  ${line}`),
    `replay: npm run sim -- ${command.join(' ')}`,
  ].join('\n');
}
