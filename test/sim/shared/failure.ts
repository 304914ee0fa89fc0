// A failure in words, and made smaller.
import type { Faulty } from './dice.js';
import type { Failure, Outcome, RunOptions } from './run.js';

/**
 * Makes a failure smaller: fewer events, then fewer kinds of faults, as long as the same invariant
 * breaks in the run. Without a kind of fault everything that is drawn after it moves, so a smaller
 * failure is another one of the same kind.
 */
export async function shrink<S extends Faulty<F>, F extends string>(
  failure: Failure<S, F>,
  run: (seed: number, options: RunOptions<F>) => Outcome<S, F> | Promise<Outcome<S, F>>,
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

/**
 * A failure in words: seed, step, what broke, what led to it, and the command that shows it again.
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
