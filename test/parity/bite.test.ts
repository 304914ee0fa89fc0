import { describe, expect, it } from 'vitest';
import { DEVIATIONS } from '../../src/scheduler/deviations.js';
import { ABSENT } from './compare.js';
import { replay } from './driver.js';
import { fixtureNames, readFixture } from './fixtures.js';
import { makeScheduler } from './scheduler-under-test.js';
import type { MakeSubject } from './subject.js';
import type { Sched, Trace, Update } from './trace.js';

/** A parity check that nothing can fail proves nothing: here recorded decisions are falsified one at a time. */

const TRACE = 't08_fcfs_preempt';

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
  const off = Object.fromEntries(DEVIATIONS.map((name) => [name, false]));

  it.each([
    ['sessionHashes', 't36_sessions', /\.(new|cached|fq)/],
    ['clearStopReason', 't36_sessions', /\.upd\.out\[\d+\]\[3\]$/],
    ['chunkMaxTokens', 't36_sessions', /\.upd\.out/],
  ])('%s in %s', (name, fixture, path) => {
    const make: MakeSubject = (options) =>
      makeScheduler({ ...options, deviations: { ...off, [name]: true } });
    expect(replay(readFixture(fixture), make).differences[0].path).toMatch(path);
  });
});

/** Leaves that a replay is driven by, or that only inform; everything else in a trace is a decision. */
const GIVEN = [
  /^(version|name|seed|vllm_commit|config|connector|workload|coverage|eos_id|stop_id)\b/,
  // A step without schedule() is the trace's wish; that update() follows from it is shown above.
  /^steps\[\]\.(step$|sched$|upd$|sample|upd\.drafts|defer\.drafts)/,
  /^steps\[\]\.(events|mid)\[\]\.(t|id|idx|prompt|max_tokens|priority|arrival|eos_at|stop_at)\b/,
  /^steps\[\]\.(events|mid)\[\]\.(ignore_eos|min_tokens|kv|salt|running|state|resumable|lora|so)\b/,
];

interface Leaf {
  path: string;
  pattern: string;
  value: unknown;
}

function* leaves(value: unknown, path: string): Generator<Leaf> {
  if (typeof value === 'object' && value !== null) {
    for (const [key, child] of Object.entries(value)) {
      yield* leaves(child, Array.isArray(value) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`);
    }
  } else yield { path, pattern: path.replace(/\[\d+\]/g, '[]').replace(/\.r\d+$/, '.*'), value };
}

/** Another value that may stand in the same place. */
function falsified({ pattern, value }: Leaf): unknown {
  if (/\.(ok|out\[\]\[\])$/.test(pattern) && (value === 0 || value === 1)) return 1 - value;
  if (typeof value === 'number') return pattern.endsWith('usage') ? value + 0.25 : value + 1;
  if (value === null && pattern.endsWith('.bitmask')) return ['r0'];
  if (value === null) return pattern.includes('.running[]') ? [1] : 'stop';
  return value === 'stop' ? 'length' : value === 'length' ? 'stop' : `${value}x`;
}

function assign(trace: Trace, path: string, value: unknown): void {
  const keys = path.replace(/\]/g, '').split(/[.[]/);
  const last = keys.pop() as string;
  const parent = keys.reduce((node, key) => (node as Record<string, unknown>)[key], trace as unknown);
  (parent as Record<string, unknown>)[last] = value;
}

/** One leaf for each kind of place and type of value that is a decision, with the fixture it stands in. */
function decisions(): [name: string, leaf: Leaf][] {
  const found = new Map<string, [string, Leaf]>();
  for (const name of fixtureNames) {
    for (const leaf of leaves(readFixture(name), '')) {
      if (GIVEN.some((given) => given.test(leaf.pattern))) continue;
      // The elements of a row differ in meaning.
      const place = /[^\]]\[\]\[\]$/.test(leaf.pattern) ? leaf.path.slice(leaf.path.lastIndexOf('[')) : '';
      found.set(`${leaf.pattern} ${place} ${leaf.value === null}`, [name, leaf]);
    }
  }
  return [...found.values()];
}

describe('the parity runner finds a falsified', () => {
  it.each(decisions().map(([name, leaf]) => ({ name, leaf, path: leaf.path })))(
    '$path of $name',
    ({ name, leaf }) => {
      const trace = readFixture(name);
      assign(trace, leaf.path, falsified(leaf));
      expect(bites(trace)).toEqual([leaf.path]);
    },
  );
});
