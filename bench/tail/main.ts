// Runs every workload in several processes, and prints the table of the slowest steps.
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { describeMachine, readMachine } from '../machine.js';
import { figure, render } from '../rows/table.js';
import { Cause, type Life, TAIL_CASES, type TailCase } from './life-result.js';
import { type Tail, tailOf } from './tail.js';

export const TAIL_HELP = `Usage: npm run bench -- --tail [--only CASE] [--lives N] [--quick]

What the slowest steps are, of ${TAIL_CASES.join(', ')}.

  --only CASE   one of them
  --lives N     processes for each, 2 to 20 (default 5); every one does the same, step by step
  --quick       a quarter of the steps

"p99 / p50" is that of all steps, "bare loop" that of a loop without a scheduler in
the same processes, by turns with the steps: the machine's own tail. "what repeats"
takes the least time of each step in all lives: it is the tail of what blockstep
does, without what the machine did. Of the steps above p99: those with a garbage
collection, with a page that was touched first, those in which the system ran
somebody else, those that are slow in every life, and those with nothing of all that.
Below stand the slowest steps that repeat: with the tokens of the first request
(decode), or the tokens that the step computes (mixed).`;

/** Steps of a life that count. */
const STEPS = 4000;

/** `npm run bench -- --tail`: the causes of p99. */
export function benchTail(args: readonly string[]): void {
  const { values } = parseArgs({
    args: [...args],
    options: {
      tail: { type: 'boolean' },
      only: { type: 'string' },
      lives: { type: 'string', default: '5' },
      quick: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(TAIL_HELP);
    return;
  }
  const cases = TAIL_CASES.filter((name) => (values.only ?? name) === name);
  if (cases.length === 0)
    throw new Error(`--only must be one of ${TAIL_CASES.join(', ')}, got ${values.only}`);
  const lives = Number(values.lives);
  if (!Number.isInteger(lives) || lives < 2 || lives > 20)
    throw new Error(`--lives must be a whole number from 2 to 20, got ${values.lives}`);
  console.log(describeMachine(readMachine()));
  const rows: string[][] = [];
  const repeating: string[] = [];
  for (const name of cases) {
    const seen = Array.from({ length: lives }, () => live(name, values.quick ? STEPS / 4 : STEPS));
    const tail = tailOf(seen);
    rows.push(rowOf(name, tail, seen));
    repeating.push(`${name}: ${listOf(tail)}`);
  }
  console.log(render(HEAD, rows));
  console.log(`Slow in every life (times the p50):\n${repeating.join('\n')}`);
}

const HEAD = [
  '',
  'p50 µs',
  'p99 µs',
  'p99 / p50',
  'bare loop',
  'what repeats',
  'above p99',
  'gc',
  'page',
  'preempted',
  'repeats',
  'nothing',
  'bytes a step',
];

function rowOf(
  name: string,
  { p50, p99, ratio, bareRatio, ownRatio, slow }: Tail,
  lives: readonly Life[],
): string[] {
  const counts = [slow.all, slow.gc, slow.fault, slow.preempted, slow.repeats, slow.nothing];
  const bytes = lives.reduce((sum, { bytesPerStep }) => sum + bytesPerStep, 0) / lives.length;
  return [
    name,
    ...[p50, p99, ratio, bareRatio, ownRatio].map(figure),
    ...counts.map(String),
    figure(Math.round(bytes)),
  ];
}

function listOf({ repeating }: Tail): string {
  if (repeating.length === 0) return 'none';
  const words: [Cause, string][] = [
    [Cause.gc, 'gc'],
    [Cause.fault, 'page'],
    [Cause.preempted, 'preempted'],
  ];
  return repeating
    .map(({ step, about, ratio, causes }) => {
      const because = words.flatMap(([bit, word]) => (causes & bit ? [word] : []));
      return `step ${step} at ${about} tokens ${figure(ratio)}${because.length > 0 ? ` (${because.join(', ')})` : ''}`;
    })
    .join('; ');
}

function live(name: TailCase, steps: number): Life {
  const args = ['--expose-gc', ...scriptArguments(import.meta.url, './life'), name, String(steps)];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status !== 0)
    throw new Error(`${name} ended by exit code ${status}: ${stderr.trim().split('\n').at(-1)}`);
  return JSON.parse(stdout) as Life;
}
