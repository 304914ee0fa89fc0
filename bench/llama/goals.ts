import { loadavg } from 'node:os';
import { THEIRS } from './contenders.js';
import { measure, median } from './measure.js';
import type { Run } from './run.js';
import { makeWorkload, WORKLOADS, type WorkloadName } from './workloads.js';

/** A row of the table of goals: how much less processor time a token is to take than with the best rival. */
export interface Goal {
  readonly model: string;
  readonly workload: WorkloadName;
  readonly numSequences: number;
  readonly threads: number;
  /** The least of the rival's time in shares of blockstep's. */
  readonly least: number;
}

/** A full cache is to cost a decode at most 1.05 of an empty one. */
const FULL = 1 / 1.05;

/** The quick rows come first, so that a run that is cut short has them. */
export const GOALS: readonly Goal[] = [
  { model: '28m', workload: 'decode', numSequences: 1, threads: 1, least: 1.1 },
  { model: '28m', workload: 'prompt', numSequences: 1, threads: 1, least: 1.4 },
  { model: '28m', workload: 'mixed', numSequences: 16, threads: 1, least: 1.6 },
  { model: '28m', workload: 'shared', numSequences: 16, threads: 1, least: 4.5 },
  { model: '28m', workload: 'full', numSequences: 1, threads: 1, least: FULL },
  { model: '28m', workload: 'decode', numSequences: 1, threads: 2, least: 1.1 },
  { model: '28m', workload: 'mixed', numSequences: 16, threads: 2, least: 1.6 },
  { model: '110m', workload: 'decode', numSequences: 1, threads: 1, least: 1.1 },
  { model: '110m', workload: 'prompt', numSequences: 1, threads: 1, least: 1.4 },
  { model: '500m', workload: 'decode', numSequences: 1, threads: 1, least: 0.97 },
  { model: '28m', workload: 'mixed', numSequences: 64, threads: 1, least: 1.6 },
  { model: '28m', workload: 'texts', numSequences: 4, threads: 1, least: 1.2 },
  { model: '110m', workload: 'decode', numSequences: 1, threads: 2, least: 1.1 },
  { model: '110m', workload: 'mixed', numSequences: 16, threads: 1, least: 1.6 },
  { model: '500m', workload: 'decode', numSequences: 1, threads: 2, least: 0.97 },
  { model: '500m', workload: 'prompt', numSequences: 1, threads: 1, least: 1.4 },
];

/** The settings that all runs have in common. */
type Shared = Pick<Run, 'folder' | 'modules' | 'server'>;

/** Ours first. A text's state is of use to a rival only where texts share a prefix. */
function contendersOf({ workload }: Goal, { server }: Shared): string[] {
  if (workload === 'full') return ['blockstep, full cache', 'blockstep, empty cache'];
  const theirs = workload === 'shared' ? THEIRS : [THEIRS[0]];
  return ['blockstep', ...theirs, ...(server === null ? [] : ['llama-server'])];
}

/**
 * Measures the rows of the goals round by round until the time is over, and prints a table in
 * Markdown. It has medians of milliseconds of processor time per token, and the best rival's time
 * as a share of blockstep's. Each has the minimum and the maximum of the rounds.
 */
export function measureGoals(minutes: number, pathOf: (model: string) => string, shared: Shared): void {
  const end = Date.now() + 60_000 * minutes;
  const times = GOALS.map((goal) => contendersOf(goal, shared).map((): number[] => []));
  const load = loadavg()[0];
  for (let isFirst = true; Date.now() < end; isFirst = false)
    for (const [i, goal] of GOALS.entries()) {
      if (Date.now() >= end) break;
      const { model, workload, numSequences, threads } = goal;
      const setting = { numSequences, threads, longest: WORKLOADS[workload] };
      const run = { ...shared, workload, setting, model: pathOf(model) };
      const contenders = contendersOf(goal, shared);
      const round = contenders.map((contender) => measure({ ...run, contender }).cpu);
      for (const [k, cpu] of round.entries()) times[i][k].push(cpu);
      // The present table, since the next rows may take long.
      if (isFirst)
        console.error(
          `${model} ${workload} ${numSequences}: ${round.map((cpu) => cpu.toFixed(0)).join(', ')}`,
        );
    }
  console.log(`\nLoad ${load.toFixed(0)} at the begin, ${loadavg()[0].toFixed(0)} at the end.\n`);
  console.log('| model | workload | at once | threads | ours | rivals | x | least, most | goal | rounds |');
  console.log('| --- | --- | ---: | ---: | ---: | --- | ---: | --- | ---: | ---: |');
  for (const [i, goal] of GOALS.entries()) if (times[i][0].length > 0) console.log(rowOf(goal, times[i]));
}

function rowOf({ model, workload, numSequences, threads, least }: Goal, times: readonly number[][]): string {
  const { name, jobs } = makeWorkload(workload, 4096, numSequences);
  const tokens = jobs.reduce((sum, { out }) => sum + out, 0);
  const each = (i: number): string => (median(times[i]) / tokens).toFixed(2);
  const [own, ...rivals] = times;
  const ratios = own.map((cpu, round) => Math.min(...rivals.map((rival) => rival[round])) / cpu);
  const x = Math.min(...rivals.map(median)) / median(own);
  const cells = [
    model,
    workload === 'full' ? `full cache: ${name}` : name,
    numSequences,
    threads,
    each(0),
    rivals.map((_, i) => each(i + 1)).join(', '),
    x >= least ? x.toFixed(2) : `**${x.toFixed(2)}**`,
    `${Math.min(...ratios).toFixed(2)}, ${Math.max(...ratios).toFixed(2)}`,
    least.toFixed(2),
    own.length,
  ];
  return `| ${cells.join(' | ')} |`;
}
