// Steps in schedulers that one process makes and disposes in a loop.
import { execFileSync } from 'node:child_process';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import type { Row } from '../rows/row.js';
import type { Lived } from './lives-process.js';

/** Schedulers that a process makes one after another. */
const SCHEDULERS = 6;
/** The parts of a life: V8 compiles a step in the first, and again where a later scheduler is unlike the ones before. */
const PARTS: readonly (readonly [number, number])[] = [
  [0, 100],
  [100, 1000],
  [1000, 2500],
];
const SIZE = 64;

/**
 * Steps of 64 decodes in schedulers that one process makes and disposes in a loop, in microseconds.
 * The figures are the mean of each part of a life, the middle one of several processes. A server
 * has one scheduler, tests and replays have many.
 */
export function benchLives(processes: number): Row[] {
  const last = PARTS[PARTS.length - 1][1];
  const args = [...scriptArguments(import.meta.url, './lives-process'), SIZE, SCHEDULERS, last].map(String);
  const runs = Array.from({ length: processes }, () => {
    return JSON.parse(
      execFileSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 26 }),
    ) as Lived[];
  });
  const rows: Row[] = [];
  const add = (name: string, of: (run: readonly Lived[]) => number): void => {
    rows.push({ group: 'lives', name, unit: 'us', value: middle(runs.map(of)), requests: SIZE });
  };
  for (let i = 0; i < SCHEDULERS; i++)
    for (const [from, to] of PARTS)
      add(`scheduler ${i + 1}, steps ${from + 1} to ${to}`, (run) => mean(run[i].steps.slice(from, to)));
  const rest = (run: readonly Lived[]): readonly Lived[] => run.slice(1);
  add('making one, with its requests', (run) => middle(rest(run).map(({ madeIn }) => madeIn)));
  add('disposing one', (run) => middle(rest(run).map(({ disposedIn }) => disposedIn)));
  return rows;
}

function mean(list: readonly number[]): number {
  return list.reduce((sum, value) => sum + value, 0) / list.length;
}

function middle(list: readonly number[]): number {
  return list.toSorted((a, b) => a - b)[list.length >> 1];
}
