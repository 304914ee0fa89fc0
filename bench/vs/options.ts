// The options of `npm run bench -- --vs`, and its help.
import { parseArgs } from 'node:util';
import { CASES } from './cases.js';

/** The options of `npm run bench -- --vs`. */
export interface VsOptions {
  /** The other checkout. */
  readonly checkout: string;
  /** Names of the cases, in their order. */
  readonly cases: readonly string[];
  readonly rounds: number;
  readonly quick: boolean;
}

export const VS_HELP = `Usage: npm run bench -- --vs CHECKOUT [options]

Compares this checkout with another one, which was built: both builds are loaded
into one process and take turns. This is how a change is judged.

Options:
  --vs CHECKOUT   the other checkout: a folder with a dist/ and an addon
  --only CASE     one case, or all that begin so (decode, engine-256); may be given again
  --rounds R      how often each case is measured, 1 to 20 (default 2)
  --quick         a quarter of the samples, and one round
  -h, --help      show this

Cases:
  ${Object.keys(CASES)
    .join(', ')
    .replace(/(.{60,74}?), /g, '$1,\n  ')}

How to read it: "p10" and "p50" are this build's times over the other's, the
median of all processes; below 1 is faster. Each round has three processes: the
other build loaded first, this one loaded first, and a control, in which this
build stands on both sides. "from .. to" are the least and the largest p10; the
control's say what the machine alone does. "slower" and "faster" are said only if
every process agrees, by more than 2 % and by more than the control differs from 1.
Anything else is not shown by this run: repeat it with --rounds, on a quiet machine.`;

/**
 * Reads the command line; null: it asks for help.
 * @throws Error that says what is wrong with it
 */
export function readVsOptions(args: readonly string[]): VsOptions | null {
  const { values } = parseArgs({
    args: [...args],
    options: {
      vs: { type: 'string' },
      only: { type: 'string', multiple: true, default: [] },
      rounds: { type: 'string' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return null;
  const names = Object.keys(CASES);
  for (const only of values.only)
    if (!names.some((name) => name.startsWith(only)))
      throw new Error(`--only must be a case or the beginning of one, got ${only}: ${names.join(', ')}`);
  const cases = names.filter(
    (name) => values.only.length === 0 || values.only.some((only) => name === only || isFamily(only, name)),
  );
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 2));
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > 20)
    throw new Error(`--rounds must be a whole number from 1 to 20, got ${values.rounds}`);
  return { checkout: values.vs ?? '', cases, rounds, quick: values.quick };

  /** A whole name means itself alone: decode-1 is not the beginning of decode-1024. */
  function isFamily(only: string, name: string): boolean {
    return !names.includes(only) && name.startsWith(only);
  }
}
