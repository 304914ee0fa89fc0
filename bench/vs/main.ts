// Measures every case of a comparison of builds in processes, and prints the table.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { describeMachine, REPOSITORY, readMachine } from '../machine.js';
import { figure, render } from '../rows/table.js';
import { stageOther, stageOwn } from './builds.js';
import { TURNS } from './cases.js';
import { readVsOptions, VS_HELP, type VsOptions } from './options.js';
import { type PairResult, PROBE } from './pair-result.js';
import { type Comparison, compare, type Pair } from './verdict.js';

/** A build of this run: the other one, this one, and this one once more. */
type Side = 'other' | 'own' | 'again';

const WORDS: Record<Side, string> = { other: 'the other build', own: 'this build', again: 'this build' };

/** `npm run bench -- --vs CHECKOUT`: this build beside another one, by turns in one process. */
export function compareBuilds(args: readonly string[]): void {
  const options = readVsOptions(args);
  if (options === null) {
    console.log(VS_HELP);
    return;
  }
  if (process.env['BLOCKSTEP_ADDON'])
    throw new Error('BLOCKSTEP_ADDON is set: both builds would load that one addon. Unset it');
  const scratch = mkdtempSync(join(tmpdir(), 'blockstep-vs-'));
  try {
    run(options, scratch);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function run({ checkout, cases, rounds, quick }: VsOptions, scratch: string): void {
  const other = stageOther(resolve(checkout), join(scratch, 'other'));
  const own = stageOwn(REPOSITORY, join(scratch, 'own'));
  stageOwn(REPOSITORY, join(scratch, 'again'));
  const turns = quick ? TURNS / 4 : TURNS;
  const pairOf = (first: Side, second: Side, name: string): Pair => {
    const result = measure(scratch, first, second, name, turns);
    return first === 'other' || first === 'again'
      ? { other: result.first, own: result.second }
      : { other: result.second, own: result.first };
  };
  // Whether both can be loaded is known before anything is measured.
  measure(scratch, 'other', 'own', PROBE, 0);
  console.log(`${describeMachine(readMachine())}\nother: ${other.about}\nthis:  ${own.about}\n`);
  const rows: string[][] = [];
  for (const name of cases) {
    try {
      const pairs: Pair[] = [];
      const controls: Pair[] = [];
      for (let round = 0; round < rounds; round++) {
        pairs.push(pairOf('other', 'own', name), pairOf('own', 'other', name));
        controls.push(round % 2 === 0 ? pairOf('again', 'own', name) : pairOf('own', 'again', name));
      }
      const comparison = compare(pairs, controls);
      rows.push(rowOf(name, comparison));
      console.error(`${name}: ${figure(comparison.p10)}, ${comparison.verdict}`);
    } catch (error) {
      // A build of another time may lack what a case calls; the other cases go on.
      rows.push([name, ...Array.from({ length: HEAD.length - 2 }, () => ''), 'not measured']);
      console.error(`${name}: not measured: ${(error as Error).message}`);
      process.exitCode = 1;
    }
  }
  console.log(render(HEAD, rows));
}

const HEAD = ['', 'other µs', 'this µs', 'p10', 'p50', 'p10 from .. to', 'control', ''];

function rowOf(name: string, { other, own, p10, p50, range, control, verdict }: Comparison): string[] {
  const between = ([from, to]: readonly [number, number]): string => `${from.toFixed(2)} .. ${to.toFixed(2)}`;
  return [
    name,
    figure(other),
    figure(own),
    p10.toFixed(3),
    p50.toFixed(3),
    between(range),
    between(control),
    verdict,
  ];
}

/** @throws Error that says in one sentence which build failed and how */
function measure(scratch: string, first: Side, second: Side, name: string, turns: number) {
  const script = scriptArguments(import.meta.url, './pair');
  const folders = [first, second].map((side) => join(scratch, side));
  const args = ['--expose-gc', ...script, ...folders, name, String(turns)];
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  const line = stdout.trim().split('\n').at(-1) ?? '';
  if (status !== 0 || line === '') {
    const said = /^\w*Error.*$/m.exec(stderr)?.[0] ?? stderr.trim().split('\n').at(-1);
    throw new Error(
      `the process of ${WORDS[first]} and ${WORDS[second]} ended by ${signal ?? `exit code ${status}`}: ${said}`,
    );
  }
  const result = JSON.parse(line) as PairResult;
  if ('wrong' in result)
    throw new Error(`${WORDS[result.wrong === 'first' ? first : second]} fails: ${result.error}`);
  return result;
}
