// The options of a check of a GPU host, and the text of `--help`.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

/** The parts of a run: (a) CUDA against host, (b) the suites, (c) the sanitizers, (d) the figures. */
export const PARTS = ['a', 'b', 'c', 'd'] as const;
export type Part = (typeof PARTS)[number];

export interface RunOptions {
  /** Folder for the results. */
  out: string;
  /** The whole run is cut to so many minutes. */
  minutes: number;
  /** Random steps of (a), for each authority. */
  steps: number;
  only: readonly Part[];
  /** Without a GPU: over the emulated one. Proves logic, measures nothing. */
  emulated: boolean;
  /** Says how to use it, and does nothing. */
  help: boolean;
}

export const USAGE = `usage: run [--out DIR] [--minutes N] [--steps N] [--only a,b,c,d] [--emulated]
  --out DIR      where the results go (default: ./gpu-results)
  --minutes N    the whole run is cut to so many minutes (default: 9)
  --steps N      random steps of CUDA against host, for each authority (default: 100000)
  --only LIST    a: CUDA against host, b: suites on the CUDA back end, c: compute-sanitizer, d: figures (default: all)
  --emulated     without a GPU: on the emulated one, which proves logic and measures nothing
Exit codes: 0 nothing failed, 1 something did, 2 there is no GPU that could be used, 3 bad options.`;

/** @throws Error saying which option is wrong */
export function readRunOptions(args: readonly string[]): RunOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      out: { type: 'string', default: 'gpu-results' },
      minutes: { type: 'string', default: '9' },
      steps: { type: 'string', default: '100000' },
      only: { type: 'string', default: PARTS.join() },
      emulated: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  const only = values.only.split(',') as Part[];
  const unknown = only.find((part) => !PARTS.includes(part));
  if (unknown !== undefined) throw new Error(`--only must be some of ${PARTS.join()}, got ${values.only}`);
  return {
    out: resolve(values.out),
    minutes: positive('--minutes', values.minutes),
    steps: Math.ceil(positive('--steps', values.steps)),
    only: PARTS.filter((part) => only.includes(part)),
    emulated: values.emulated,
    help: values.help,
  };
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0 && value < Number.MAX_SAFE_INTEGER))
    throw new Error(`${name} must be a number above 0, got ${text}`);
  return value;
}
