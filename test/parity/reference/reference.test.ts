import { describe, expect, it } from 'vitest';
import { replay } from '../driver.js';
import { fixtureNames, readFixture } from '../fixtures.js';
import { report } from '../report.js';
import type { MakeSubject } from '../subject.js';
import type { Trace } from '../trace.js';
import { generateTrace } from './recorder.js';
import { ReferenceScheduler } from './scheduler.js';

const makeReference: MakeSubject = (options) => new ReferenceScheduler(options);

describe('the reference scheduler', () => {
  it.each(fixtureNames)('decides what vLLM decides in %s', (name) => {
    const result = replay(readFixture(name), makeReference);
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.steps).toBe(result.trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(4000);
  });
});

/** How often what matters happens in a trace. */
function census(traces: Trace[]): Record<string, number> {
  const count = {
    preempted: 0,
    resumed: 0,
    hits: 0,
    drafts: 0,
    aborts: 0,
    resets: 0,
    pauses: 0,
    stops: 0,
    lengths: 0,
  };
  for (const { sched, upd, events } of traces.flatMap((trace) => trace.steps)) {
    count.preempted += sched?.preempted.length ?? 0;
    count.resumed += sched?.resumed.length ?? 0;
    count.hits += sched?.new.filter(([, , computed]) => computed > 0).length ?? 0;
    count.drafts += sched?.spec?.length ?? 0;
    count.aborts += events.filter((event) => event.t === 'abort' && event.ok === 1).length;
    count.resets += events.filter(
      (event) => event.t === 'reset_prefix_cache' && event.preempted.length > 0,
    ).length;
    count.pauses += events.filter((event) => event.t === 'pause' && event.state !== 'UNPAUSED').length;
    count.stops += upd?.out.filter((row) => row[2] === 'stop').length ?? 0;
    count.lengths += upd?.out.filter((row) => row[2] === 'length').length ?? 0;
  }
  return count;
}

describe('generated traces', () => {
  const traces = Array.from({ length: 40 }, (_, i) => generateTrace(i + 1));

  it('exercise everything that they are for', () => {
    for (const [what, count] of Object.entries(census(traces))) expect(count, what).toBeGreaterThan(10);
  });

  it('cover every option', () => {
    const of = (pick: (config: Trace['config']) => unknown) =>
      new Set(traces.map((trace) => pick(trace.config))).size;
    expect(of((config) => config.policy)).toBe(2);
    expect(of((config) => config.async_scheduling)).toBe(2);
    expect(of((config) => config.enable_chunked_prefill)).toBe(2);
    expect(of((config) => config.enable_prefix_caching)).toBe(2);
    expect(of((config) => config.scheduler_reserve_full_isl)).toBe(2);
    expect(of((config) => config.spec_method)).toBe(4);
    expect(of((config) => config.long_prefill_token_threshold)).toBe(5);
  });

  it('are the same for the same seed', () => {
    expect(JSON.stringify(generateTrace(7))).toBe(JSON.stringify(traces[6]));
    expect(JSON.stringify(generateTrace(8))).not.toBe(JSON.stringify(traces[6]));
  });
});
