// Recorded decisions are falsified, every kind of field once; each change must be found at its
// path.
import { describe, expect, it } from 'vitest';
import { DEVIATIONS } from '../../src/scheduler/options/deviations.js';
import { ABSENT } from './compare.js';
import { replay } from './driver.js';
import { decisions, falsified } from './falsify.js';
import { fixtureNames, groupFixtureNames, readFixture } from './fixtures.js';
import { ReferenceScheduler } from './reference/scheduler.js';
import { makeScheduler } from './scheduler-under-test.js';
import type { MakeSubject } from './subject.js';
import type { Sched, Trace, Update } from './trace.js';

/** A parity check that nothing can fail proves nothing: here recorded decisions are falsified one at a time. */

const TRACE = 't08_fcfs_preempt';
const CONNECTOR_TRACE = 't17_conn_async';
const makeReference: MakeSubject = (options) => new ReferenceScheduler(options);

/** The first step of a trace whose plan (or update) has what is asked for; throws if none has. */
function find<Part extends 'sched' | 'upd'>(
  trace: Trace,
  part: Part,
  has: (value: NonNullable<Trace['steps'][number][Part]>) => boolean,
): { at: string; value: Part extends 'sched' ? Sched : Update } {
  const i = trace.steps.findIndex((step) => step[part] !== null && has(step[part] as never));
  return { at: `steps[${i}].${part}`, value: trace.steps[i][part] as never };
}

/** Replays and returns the paths of the differences. */
function bites(trace: Trace): string[] {
  const result = replay(trace, makeScheduler);
  expect(result.steps).toBe(trace.steps.length);
  return result.differences.map((difference) => difference.path);
}

describe('the parity runner finds', () => {
  it('a changed block id', () => {
    const trace = readFixture(TRACE);
    const { at, value } = find(trace, 'sched', ({ running }) => running.some((row) => row[1] !== null));
    const row = value.running.findIndex(([, blocks]) => blocks !== null);
    (value.running[row][1] as number[])[0] += 1;
    expect(bites(trace)).toEqual([`${at}.running[${row}][1][0]`]);
  });

  it('a dropped preemption', () => {
    const trace = readFixture(TRACE);
    const { at, value } = find(trace, 'sched', ({ preempted }) => preempted.length === 1);
    const victim = value.preempted.pop();
    const { differences } = replay(trace, makeScheduler);
    expect(differences).toEqual([{ path: `${at}.preempted[0]`, expected: ABSENT, got: victim }]);
  });

  it('two queue entries in the wrong order', () => {
    const trace = readFixture(TRACE);
    const { at, value } = find(trace, 'upd', ({ wait }) => wait.length > 2);
    [value.wait[1], value.wait[2]] = [value.wait[2], value.wait[1]];
    expect(bites(trace)).toEqual([`${at}.wait[1]`, `${at}.wait[2]`]);
  });

  it('a changed output token', () => {
    const trace = readFixture(TRACE);
    const { at, value } = find(trace, 'upd', ({ out }) => out.length > 1);
    value.out[1][1][0] += 1;
    expect(bites(trace)).toEqual([`${at}.out[1][1][0]`]);
  });

  it('a changed finish reason', () => {
    const trace = readFixture(TRACE);
    const { at, value } = find(trace, 'upd', ({ out }) => out.some((row) => row[2] === 'length'));
    const row = value.out.findIndex(([, , reason]) => reason === 'length');
    value.out[row][2] = 'stop';
    expect(bites(trace)).toEqual([`${at}.out[${row}][2]`]);
  });

  it('a changed order of the free queue', () => {
    const trace = readFixture(TRACE);
    (trace.steps[9].upd as Update).fq ^= 1;
    expect(bites(trace)).toEqual(['steps[9].upd.fq']);
  });

  it('a missing finished id', () => {
    const trace = readFixture(TRACE);
    const { at, value } = find(trace, 'sched', ({ finished }) => finished.length > 0);
    value.finished.pop();
    expect(bites(trace)).toEqual([`${at}.finished[${value.finished.length}]`]);
  });

  it('an unknown field, wherever it stands, and still replays the rest', () => {
    const trace = readFixture(TRACE);
    Object.assign(trace, { novelty: 1 });
    Object.assign(trace.steps[0], { novelty: 1 });
    Object.assign(trace.steps[1].sched as Sched, { novelty: 1 });
    Object.assign(trace.steps[2].upd as Update, { novelty: [1, 2] });
    Object.assign(trace.final, { novelty: 1 });
    expect(bites(trace).sort()).toEqual([
      'final.novelty',
      'novelty',
      'steps[0].novelty',
      'steps[1].sched.novelty',
      'steps[2].upd.novelty',
    ]);
  });

  it('an update that was or was not recorded', () => {
    const trace = readFixture('t22_async_sched');
    expect(trace.steps[0].upd).toBeNull();
    trace.steps[0].upd = structuredClone(trace.steps[1].upd);
    trace.steps[9].upd = null;
    expect(bites(trace)).toEqual(['steps[0].upd', 'steps[9].upd']);
  });

  it('a batch whose sampling was or was not deferred', () => {
    const trace = readFixture('t47_structured_spec_async_deferred');
    const deferred = trace.steps.findIndex((step) => step.defer);
    const { defer } = trace.steps[deferred];
    delete trace.steps[deferred].defer;
    expect(bites(trace)[0]).toBe(`steps[${deferred}].defer`);
    const again = readFixture('t47_structured_spec_async_deferred');
    const other = again.steps.findIndex((step) => step.sched?.pend === 0);
    Object.assign(again.steps[other], { defer });
    expect(bites(again)).toContain(`steps[${other}].defer`);
  });

  it('connector calls in the wrong order', () => {
    const trace = readFixture(CONNECTOR_TRACE);
    const { at, value } = find(trace, 'sched', ({ conn = [] }) => conn[0]?.[0] === 'match');
    const { conn = [] } = value;
    expect(conn[1].slice(0, 2)).toEqual(['alloc', conn[0][1]]);
    [conn[0], conn[1]] = [conn[1], conn[0]];
    expect(bites(trace)).toEqual(expect.arrayContaining([`${at}.conn[0][0]`, `${at}.conn[1][0]`]));
  });

  it.each(['conn_pre', 'conn_mid'] as const)('a connector call that is missing in %s', (name) => {
    const trace = readFixture(CONNECTOR_TRACE);
    const i = trace.steps.findIndex((step) => (step[name] ?? []).length > 0);
    const calls = trace.steps[i][name] ?? [];
    calls.pop();
    expect(bites(trace)).toEqual([`steps[${i}].${name}[${calls.length}]`]);
  });

  it('a connector call that nobody recorded', () => {
    const trace = readFixture(CONNECTOR_TRACE);
    const { at, value } = find(trace, 'upd', ({ conn = [] }) => conn.length > 0);
    value.conn?.push(['finished', 'r0', 'FINISHED_ERROR', 0, 0]);
    expect(bites(trace)).toEqual([`${at}.conn[${(value.conn?.length ?? 0) - 1}]`]);
  });

  it('a load that was reported and not promoted, and one that failed', () => {
    const late = readFixture(CONNECTOR_TRACE);
    const i = late.steps.findIndex((step) => step.upd?.kv?.recv.length === 1);
    const { upd } = late.steps[i];
    const next = late.steps[i + 1].upd;
    [late.steps[i].upd, late.steps[i + 1].upd] = [
      { ...upd, kv: null } as Update,
      { ...next, kv: { send: [], invalid: [], ...next?.kv, recv: upd?.kv?.recv ?? [] } } as Update,
    ];
    expect(bites(late)[0]).toMatch(new RegExp(`^steps\\[${i + 1}\\]\\.sched\\.`));
    const whole = readFixture('t20_conn_load_failures');
    const j = whole.steps.findIndex((step) => step.upd?.kv?.invalid);
    delete whole.steps[j].upd?.kv?.invalid;
    expect(bites(whole)[0]).toMatch(new RegExp(`^steps\\[${j}\\]\\.upd\\.`));
  });

  it('a trace that was cut off', () => {
    const trace = readFixture(TRACE);
    trace.steps.length = 40;
    expect(bites(trace)).toEqual(expect.arrayContaining(['n_steps', 'n_requests', 'final.fq']));
  });

  it('a scheduler that throws', () => {
    const trace = readFixture(TRACE);
    const result = replay(trace, (options) => {
      const scheduler = makeScheduler(options);
      let updates = 0;
      const update: typeof scheduler.update = (plan, tokens) => {
        if (++updates === 5) throw new Error('out of order');
        return scheduler.update(plan, tokens);
      };
      return new Proxy(scheduler, {
        get: (target, key) => {
          if (key === 'update') return update;
          const value = Reflect.get(target, key, target) as unknown;
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
    });
    expect(result.steps).toBe(4);
    expect(result.differences).toEqual([
      { path: 'steps[4]', expected: 'no error', got: 'Error: out of order' },
    ]);
  });
});

describe('the parity runner finds a deviation from vLLM', () => {
  it.each([
    ['sessionHashes', 't36_sessions', /\.(new|cached|fq)/],
    ['clearStopReason', 't36_sessions', /\.upd\.out\[\d+\]\[3\]$/],
    ['chunkMaxTokens', 't36_sessions', /\.upd\.out/],
    ['evictFailedLoads', 't20_conn_load_failures', /\.upd\.cached$/],
    ['admitStuckLoads', 't52_long_mixed', /\.sched\.new/],
  ])('%s in %s', (name, fixture, path) => {
    const make: MakeSubject = (options) =>
      makeScheduler({ ...options, deviations: DEVIATIONS.filter((each) => each !== name) });
    expect(replay(readFixture(fixture), make).differences[0].path).toMatch(path);
  });
});

describe('the parity runner finds a falsified', () => {
  it.each(decisions(fixtureNames).map(([name, leaf]) => ({ name, leaf, path: leaf.path })))(
    '$path of $name',
    ({ name, leaf }) => {
      expect(bites(falsified(name, leaf))).toEqual([leaf.path]);
    },
  );
});

describe('the parity runner finds in a trace with KV cache groups a falsified', () => {
  it.each(decisions(groupFixtureNames).map(([name, leaf]) => ({ name, leaf, path: leaf.path })))(
    '$path of $name',
    ({ name, leaf }) => {
      const { differences, steps, trace } = replay(falsified(name, leaf), makeReference);
      expect(steps).toBe(trace.steps.length);
      // The content of a recorded event says which events of the scheduler it is about.
      const events = /^.*\.kv_events/.exec(leaf.path)?.[0];
      if (events === undefined) expect(differences.map(({ path }) => path)).toEqual([leaf.path]);
      else {
        expect(differences.length).toBeGreaterThan(0);
        expect(differences.filter(({ path }) => !path.startsWith(events))).toEqual([]);
      }
    },
  );
});
