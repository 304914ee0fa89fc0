// The analysis of the slowest steps.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { Cause, type Life } from '../../bench/tail/life-result.js';
import { TAIL_HELP } from '../../bench/tail/main.js';
import { tailOf } from '../../bench/tail/tail.js';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { thinned } from '../support/share.js';

function bench(...args: string[]) {
  const main = scriptArguments(import.meta.url, '../../bench/main');
  return spawnSync(process.execPath, [...main, '--tail', ...args], { encoding: 'utf8' });
}

/** 200 steps of 10 µs beside a bare loop of 2 µs, except some. */
function life(slow: Record<number, number>, causes: Record<number, number> = {}): Life {
  const at = <T>(list: Record<number, T>, otherwise: T): T[] =>
    Array.from({ length: 200 }, (_, i) => list[i] ?? otherwise);
  return {
    times: at(slow, 10),
    bare: at({ 0: 5, 1: 5, 2: 5 }, 2),
    abouts: Array.from({ length: 200 }, (_, i) => 600 + i),
    causes: at(causes, 0),
    collections: 0,
    bytesPerStep: 0,
  };
}

describe('the tail of a workload', () => {
  it('is told apart: what each life does again, and what befell one of them', () => {
    const tail = tailOf([
      life({ 3: 40, 7: 60, 9: 30, 11: 35 }, { 3: Cause.fault, 7: Cause.preempted, 9: Cause.gc }),
      life({ 3: 50, 8: 90 }, { 3: Cause.fault | Cause.preempted, 8: Cause.preempted | Cause.gc }),
    ]);
    expect(tail).toMatchObject({ p50: 10, p99: 35, ratio: 3.5, bareRatio: 2.5, ownRatio: 1 });
    expect(tail.slow).toEqual({ all: 4, gc: 1, fault: 2, preempted: 3, repeats: 2, nothing: 0 });
    expect(tail.repeating).toEqual([{ step: 3, about: 603, ratio: 4, causes: Cause.fault }]);
  });

  it('has steps that nothing explains, and lists the slowest of those that repeat', () => {
    const slow = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [i, 20 + i]));
    const tail = tailOf([life({ ...slow, 100: 99 }), life(slow)]);
    expect(tail.slow).toMatchObject({ all: 3, repeats: 2, nothing: 1 });
    expect(tail.ownRatio).toBe(2.9);
    expect(tail.repeating.map(({ step }) => step)).toEqual([11, 10, 9, 8, 7, 6, 5, 4]);
  });

  it('is measured by processes that do the same', () => {
    const { status, stdout, stderr } = bench('--only', 'decode-256', '--lives', '2', '--quick');
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/│ decode-256 │( +[\d.]+ │){12}/);
    expect(stdout).toMatch(/^decode-256: (none|step \d+ at \d+ tokens [\d.]+)/m);
  });

  it('explains itself', () => {
    const { status, stdout } = bench('--help');
    expect([status, stdout]).toEqual([0, `${TAIL_HELP}\n`]);
  });

  const refused: readonly (readonly [readonly string[], string])[] = [
    [['--only', 'decode-1'], '--only must be one of decode-256, decode-1024, mixed-256, got decode-1'],
    [['--lives', '1'], '--lives must be a whole number from 2 to 20, got 1'],
    [['--rounds', '2'], "Unknown option '--rounds'"],
  ];
  it.each(thinned(refused, 1))('is refused for %j', (args, message) => {
    const { status, stdout, stderr } = bench(...args);
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
  });
});
