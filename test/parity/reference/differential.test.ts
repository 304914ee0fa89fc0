// The scheduler decides as the reference, on random workloads.
import { describe, expect, it } from 'vitest';
import { share } from '../../support/share.js';
import { replay } from '../driver.js';
import { report } from '../report.js';
import { makeScheduler } from '../scheduler-under-test.js';
import type { Trace } from '../trace.js';
import { generateDeepTrace, generateGroupTrace, generateTrace } from './recorder.js';

const TRACES = share(2, 10, 24);

describe('the scheduler decides what the reference decides on random workloads', () => {
  const seeds = Array.from({ length: TRACES }, (_, i) => 1000 + i);
  it.each(seeds)('seed %i', (seed) => expectSame(generateTrace(seed)));
  it.each(seeds)('seed %i, three batches in flight', (seed) => expectSame(generateDeepTrace(seed)));
  // Without its deviations the scheduler has these faults of vLLM.
  it.each(seeds)('seed %i, with KV cache groups', (seed) =>
    expectSame(generateGroupTrace(seed, { G2: true, G3: true, G9: true, G17: true })),
  );
});

function expectSame(trace: Trace): void {
  for (const observe of ['state', 'plans'] as const) {
    const result = replay(trace, makeScheduler, { observe });
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(result.steps);
  }
}
