import { describe, expect, it } from 'vitest';
import { replay } from '../driver.js';
import { report } from '../report.js';
import { makeScheduler } from '../scheduler-under-test.js';
import type { Trace } from '../trace.js';
import { generateDeepTrace, generateTrace } from './recorder.js';

const TRACES = 60;

describe('the scheduler decides what the reference decides on random workloads', () => {
  const seeds = Array.from({ length: TRACES }, (_, i) => 1000 + i);
  it.each(seeds)('seed %i', (seed) => expectSame(generateTrace(seed)));
  it.each(seeds)('seed %i, three batches in flight', (seed) => expectSame(generateDeepTrace(seed)));
});

function expectSame(trace: Trace): void {
  for (const observe of ['state', 'plans'] as const) {
    const result = replay(trace, makeScheduler, { observe });
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(result.steps);
  }
}
