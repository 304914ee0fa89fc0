// A GPU decides as vLLM does, in recorded and in random traces.
import { describe, expect, it } from 'vitest';
import '../support/gpu.js';
import { replay } from '../parity/driver.js';
import { readFixture } from '../parity/fixtures.js';
import { generateTrace } from '../parity/reference/recorder.js';
import { report } from '../parity/report.js';
import { makeDecidedScheduler } from '../parity/scheduler-under-test.js';

// One trace for each feature that costs the GPU a round trip of its own or has its own words in a batch. All traces:
// npm run parity -- --authority device test/parity/fixtures
const TRACES = [
  't02_fcfs_chunked_small_budget',
  't14_priority_preempt',
  't20_conn_load_failures',
  't23_async_sched_preempt',
  't31_spec_eagle_chunked',
  't43_async_spec_preempt',
  't47_structured_spec_async_deferred',
  't56_async_spec_conn',
  // The rules of August that admissions follow, and those by which others are passed over.
  'a_rule_draftBudget',
  'a_rule_loadReservation',
  'a_rule_lookahead',
  'a_rule_padDecode',
  'a_rule_sessionGate',
  'a_rule_staleOutput',
  'a_rule_watermark',
  'a31_everything_sync',
  'a32_everything_async',
];

// With every option turned. More: npm run parity -- --authority device --random 500
const SEEDS = [1, 2, 3, 4, 5, 6];

describe('a GPU decides what vLLM decides', () => {
  it.each(TRACES)('%s', (name) => {
    const trace = readFixture(name);
    const result = replay(trace, makeDecidedScheduler, { observe: 'plans' });
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.error).toBe(null);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(15 * result.steps);
  });

  it.each(
    SEEDS.flatMap(
      (seed) =>
        [
          [seed, 'may'],
          [seed, 'august'],
        ] as const,
    ),
  )('in the random trace %i by the rules of %s', (seed, choice) => {
    const trace = generateTrace(seed, choice);
    const result = replay(trace, makeDecidedScheduler, { observe: 'plans' });
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect([result.error, result.steps]).toEqual([null, trace.steps.length]);
    expect(result.comparisons).toBeGreaterThan(result.steps);
  });
});
