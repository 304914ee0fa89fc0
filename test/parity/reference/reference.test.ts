// The reference decides as vLLM did in every recorded trace; generated traces cover all of their
// features.
import { describe, expect, it } from 'vitest';
import { DEVIATIONS } from '../../../src/scheduler/options/deviations.js';
import { replay } from '../driver.js';
import { augustFixtureNames, fixtureNames, isCut, readFixture } from '../fixtures.js';
import { report } from '../report.js';
import { makeScheduler } from '../scheduler-under-test.js';
import type { MakeSubject } from '../subject.js';
import type { Trace } from '../trace.js';
import { generateDeepTrace, generateTrace } from './recorder.js';
import { ReferenceScheduler } from './scheduler.js';

const makeReference: MakeSubject = (options) => new ReferenceScheduler(options);

describe('the reference scheduler', () => {
  it.each([...fixtureNames, ...augustFixtureNames])('decides what vLLM decides in %s', (name) => {
    const result = replay(readFixture(name), makeReference);
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.steps).toBe(result.trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(isCut(name) ? 20 * result.steps : 800);
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
    chunks: 0,
    queuedChunks: 0,
    ends: 0,
    continued: 0,
    grammars: 0,
    rejections: 0,
    deferred: 0,
    refusedDrafts: 0,
    passedOverForAdapters: 0,
    lookupsDeferred: 0,
    loads: 0,
    syncLoads: 0,
    received: 0,
    sent: 0,
    loadsAborted: 0,
    abortsWhileSending: 0,
    failures: 0,
    endedByFailure: 0,
    sharedFailures: 0,
    resumedFromLoad: 0,
  };
  const admitted = new Set<string>();
  const loading = new Set<string>();
  const steps = traces.flatMap(({ name, steps }) => steps.map((step) => ({ ...step, name })));
  for (const { sched, upd, events, defer, name } of steps) {
    count.preempted += sched?.preempted.length ?? 0;
    count.resumed += sched?.resumed.length ?? 0;
    count.hits += sched?.new.filter(([, , computed]) => computed > 0).length ?? 0;
    count.drafts += sched?.spec?.length ?? 0;
    count.aborts += events.filter((event) => event.t === 'abort' && event.ok === 1).length;
    count.resets += events.filter(
      (event) => event.t === 'reset_prefix_cache' && event.preempted.length > 0,
    ).length;
    count.pauses += events.filter((event) => event.t === 'pause' && event.state !== 'UNPAUSED').length;
    const chunks = events.filter((event) => event.t === 'chunk');
    count.chunks += chunks.length;
    count.queuedChunks += chunks.filter(({ was }) => was !== 'WAITING_FOR_STREAMING_REQ').length;
    count.ends += events.filter((event) => event.t === 'end').length;
    count.continued += sched?.new.filter(([id]) => admitted.has(name + id)).length ?? 0;
    for (const [id] of sched?.new ?? []) admitted.add(name + id);
    count.grammars += events.filter((event) => event.t === 'grammar').length;
    count.rejections += upd?.out.filter((row) => row[2] === 'error').length ?? 0;
    count.deferred += defer ? 1 : 0;
    count.refusedDrafts += Object.keys(defer?.invalid ?? {}).length;
    count.stops += upd?.out.filter((row) => row[2] === 'stop').length ?? 0;
    count.lengths += upd?.out.filter((row) => row[2] === 'length').length ?? 0;
  }
  for (const { name, sched, sample, upd, events, mid = [] } of steps) {
    if (!upd?.conn) continue;
    const calls = sched?.conn ?? [];
    const asynchronous = new Set(
      calls.flatMap((call) => (call[0] === 'match' && call[4] === 1 ? call[1] : [])),
    );
    for (const call of calls) {
      count.lookupsDeferred += call[0] === 'match' && call[3] === null ? 1 : 0;
      if (call[0] !== 'alloc' || call[2] === 0) continue;
      if (asynchronous.has(call[1])) loading.add(name + call[1]);
      count[asynchronous.has(call[1]) ? 'loads' : 'syncLoads']++;
    }
    for (const [id] of sched?.resumed ?? []) count.resumedFromLoad += loading.has(name + id) ? 1 : 0;
    for (const [id] of sched?.tokens ?? []) loading.delete(name + id);
    const was = [...events, ...mid].map((event) => (event.t === 'abort' ? event.was : ''));
    count.loadsAborted += was.filter((status) => status === 'WAITING_FOR_REMOTE_KVS').length;
    count.abortsWhileSending += was.filter((status) => status.startsWith('FINISHED')).length;
    count.received += upd.kv?.recv.length ?? 0;
    count.sent += upd.kv?.send.length ?? 0;
    if (!upd.kv?.invalid) continue;
    const rows = new Set(upd.out.filter(([, tokens]) => tokens.length > 0).map(([id]) => id));
    const ended = upd.out.filter(([, tokens]) => tokens.length === 0).length;
    const dropped = sample?.filter(([id]) => !rows.has(id)).length ?? 0;
    count.failures++;
    count.endedByFailure += ended;
    count.sharedFailures += Math.max(ended, dropped) > 1 ? 1 : 0;
  }
  for (const { config, steps } of traces) {
    if (config.max_loras === null) continue;
    const adds = steps.flatMap(({ events }) => events.filter((event) => event.t === 'add'));
    const plain = new Set(adds.filter(({ so, resumable }) => !so && !resumable).map(({ id }) => id));
    const skipped = steps.flatMap(({ upd }) => upd?.skip ?? []);
    count.passedOverForAdapters += skipped.filter((id) => plain.has(id)).length;
  }
  return count;
}

/** The first so many traces of which something is true. Requests behind them are not looked at. */
function firstOf(count: number, traces: Iterable<Trace>, isTrue: (trace: Trace) => boolean): Trace[] {
  const found: Trace[] = [];
  for (const trace of traces) {
    if (isTrue(trace)) found.push(trace);
    if (found.length === count) break;
  }
  return found;
}

function* deepTraces(count: number): Generator<Trace> {
  for (let seed = 1; seed <= count; seed++) yield generateDeepTrace(seed);
}

describe('generated traces', () => {
  const traces = Array.from({ length: 60 }, (_, i) => generateTrace(i + 1));

  it('exercise everything that they are for', () => {
    for (const [what, count] of Object.entries(census(traces))) expect(count, what).toBeGreaterThan(10);
  });

  it('show a hash that is left of a token which a session dropped', () => {
    const make: MakeSubject = (options) =>
      makeScheduler({ ...options, deviations: DEVIATIONS.filter((name) => name !== 'sessionHashes') });
    const found = firstOf(2, traces, (trace) => replay(trace, make).differences.length > 0);
    expect(found.length).toBe(2);
  });

  it('have requests that run again before a batch of before their preemption is processed', () => {
    const make = (on: boolean) => (options: Parameters<MakeSubject>[0]) =>
      makeScheduler({
        ...options,
        deviations: DEVIATIONS.filter((name) => !on || name !== 'keepRecomputed'),
      });
    const differs = (trace: Trace) => replay(trace, make(true)).differences.length > 0;
    const found = firstOf(6, deepTraces(60), differs);
    expect(found.length).toBe(6);
    for (const trace of found) expect(replay(trace, make(false)).differences).toEqual([]);
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
    expect(of((config) => config.max_loras)).toBe(3);
    expect(of((config) => config.long_prefill_token_threshold)).toBe(5);
  });

  it('are the same for the same seed', () => {
    expect(JSON.stringify(generateTrace(7))).toBe(JSON.stringify(traces[6]));
    expect(JSON.stringify(generateTrace(8))).not.toBe(JSON.stringify(traces[6]));
  });
});
