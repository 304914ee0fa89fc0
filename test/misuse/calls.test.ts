// The arguments of every other call; lists for `abort`; strict mode.
import { describe, expect, it } from 'vitest';
import type { OutstandingKind } from '../../src/scheduler/request/outstanding.js';
import {
  hostile,
  MINE,
  NO_BOOLEANS,
  NO_COUNTS,
  NO_INTEGERS,
  NO_STRINGS,
  throwingProxy,
} from './bad-values.js';
import { type Bench, benchIn, codeOf, LIVE_STATES, STALE_HANDLE, snapshot } from './bench.js';
import { checkRefused, each, type Misuse, sameSteps } from './misuse.js';

const abort = (bench: Bench, ids: unknown) => bench.scheduler.abort(ids as string[]);
const reset = (bench: Bench, options: unknown) => bench.scheduler.resetPrefixCache(options as object);

function* throwsAfter(...ids: unknown[]): Generator<unknown> {
  yield* ids;
  throw MINE;
}

/** Neither an id nor an iterable, which abort takes too, and nothing that throws when it is asked. */
const NO_KEYS = [...NO_INTEGERS, -1, undefined].filter((value) => {
  try {
    return typeof value !== 'string' && !(typeof value === 'object' && Symbol.iterator in (value ?? {}));
  } catch {
    return false;
  }
});
const NO_HANDLES = [...NO_INTEGERS, -1, undefined].filter((value) => typeof value !== 'string');

const ABORTS: Misuse[] = [
  ...each('abort', NO_KEYS, abort),
  ...each(
    'abort',
    NO_HANDLES.map((key) => ['a', key]),
    abort,
  ),
  ...each('abort', [new Map([['a', 1]]), [['a']], { [Symbol.iterator]: 5 }], abort),
  ...each('abort', [throwingProxy({}), throwingProxy(['a']), { [Symbol.iterator]: hostile }], abort, MINE),
  ...each(
    'abort',
    [1, 2, 3],
    (bench, n) => abort(bench, throwsAfter(...['a', 'b', 'c'].slice(0, n as number))),
    MINE,
  ),
];

/** Every bad argument of a function that takes a handle, a kind and an owner. */
function outstanding(name: 'hold' | 'complete'): Misuse[] {
  const call = (bench: Bench, handle: unknown, kind: unknown, owner: unknown) =>
    bench.scheduler[name](handle as number, kind as OutstandingKind, owner as string);
  const handle = (bench: Bench) => bench.scheduler.get('a')?.handle ?? STALE_HANDLE;
  const owners = [...NO_STRINGS, undefined];
  const kinds = [...NO_STRINGS, undefined, '', 'LOAD', 'toString', '0', ['load']];
  const handles = [...NO_INTEGERS, -1, undefined, 'a', ['a'], [STALE_HANDLE], new Set([1]), []];
  return [
    ...each(`${name} handle`, handles, (bench, value) => call(bench, value, 'load', 'job')),
    ...each(`${name} kind`, kinds, (bench, value) => call(bench, handle(bench), value, 'job')),
    ...each(`${name} owner`, owners, (bench, value) => call(bench, handle(bench), 'load', value)),
  ];
}

const NO_MODES = [
  undefined,
  null,
  0,
  1,
  'none',
  'NEW',
  '',
  ' all',
  ['new'],
  Object('new'),
  {},
  1n,
  Symbol('s'),
];
const NO_OPTIONS = [null, true, false, 1, 'x', '', 1n, Symbol('s'), () => ({})];
const resetRunning = (value: unknown) => ({ resetRunning: value });

const MISUSES: Record<string, Misuse[]> = {
  abort: ABORTS,
  hold: outstanding('hold'),
  complete: outstanding('complete'),
  pause: [
    ...each('pause', NO_MODES, (bench, mode) => bench.scheduler.pause(mode as 'new')),
    ...each('pause', [throwingProxy({})], (bench, mode) => bench.scheduler.pause(mode as 'new')),
  ],
  resetPrefixCache: [
    ...each('reset', NO_OPTIONS, reset),
    ...each('reset', NO_BOOLEANS.map(resetRunning), reset),
    ...each(
      'reset',
      [throwingProxy({}), Object.defineProperty({}, 'resetRunning', { get: hostile })],
      reset,
      MINE,
    ),
  ],
};

describe.each(LIVE_STATES)('when %s', (state) => {
  it.each(Object.keys(MISUSES))('%s refuses all bad arguments and changes nothing', (name) => {
    checkRefused(state, MISUSES[name]);
  });

  it('get and getByHandle find nothing under what is no key', () => {
    const bench = benchIn(state);
    const values = [...NO_COUNTS, undefined, -0, '', 'nobody', '__proto__', 'constructor', STALE_HANDLE];
    for (const value of values) {
      expect(bench.scheduler.get(value as string)).toBeUndefined();
      if (codeOfRefusal(() => bench.scheduler.getByHandle(value as number)) !== 'ERR_BLOCKSTEP_BAD_ARG') {
        expect(bench.scheduler.getByHandle(value as number)).toBeUndefined();
      }
    }
  });

  it('what is unknown or stale is skipped and counted', () => {
    const [bench, twin] = [benchIn(state), benchIn(state)];
    const { scheduler } = bench;
    const before = snapshot(scheduler);
    const known = scheduler.stats().anomalies;
    expect(scheduler.abort(['nobody', '', '__proto__', STALE_HANDLE])).toEqual([]);
    expect(scheduler.abort([])).toEqual([]);
    expect([0, -0, 2 ** 31, 2 ** 32, 2 ** 53 - 1].map((handle) => scheduler.abort(handle))).toEqual([
      [],
      [],
      [],
      [],
      [],
    ]);
    expect(scheduler.hold(STALE_HANDLE, 'load', 'job')).toBe(false);
    expect(scheduler.complete(STALE_HANDLE, 'store', 'job')).toBe(false);
    expect(snapshot(scheduler)).toEqual(before);
    const { anomalies } = scheduler.stats();
    expect(anomalies['abort-unknown'] - (known['abort-unknown'] ?? 0)).toBe(3);
    expect(anomalies['stale-handle'] - (known['stale-handle'] ?? 0)).toBe(8);
    sameSteps(bench, twin, state);
  });
});

function codeOfRefusal(call: () => unknown): string {
  try {
    call();
    return 'none';
  } catch (error) {
    return codeOf(() => {
      throw error;
    });
  }
}

describe('abort', () => {
  it('of ids and handles given twice and mixed ends each request once', () => {
    const { scheduler } = benchIn('running');
    const a = scheduler.get('a')?.handle as number;
    expect(scheduler.abort([a, 'a', 'b', a, 'b'])).toEqual(['a', 'b']);
    expect(scheduler.abort([a, 'a', 'b'])).toEqual([]);
  });

  it('of a request that drains is counted and changes nothing', () => {
    const { scheduler } = benchIn('draining', { strict: true });
    const before = snapshot(scheduler);
    expect(scheduler.stats().numDraining).toBe(1);
    const handle = [...Array(8).keys()]
      .map((slot) => scheduler.core.native.handle(slot))
      .find((candidate) => scheduler.getByHandle(candidate)?.isFinished);
    expect(scheduler.abort(handle as number)).toEqual([]);
    expect(snapshot(scheduler)).toEqual(before);
    expect(scheduler.stats().anomalies['abort-finished']).toBe(1);
  });

  it('takes a million keys', () => {
    const { scheduler } = benchIn('running');
    expect(scheduler.abort([...Array(1_000_000).fill('nobody'), 'a'])).toEqual(['a']);
  });

  it('an iterable may call back, because nothing has begun yet', () => {
    const bench = benchIn('running');
    function* calling(): Generator<string> {
      yield 'a';
      bench.scheduler.abort('b');
      bench.step();
      bench.add('x');
      yield 'b';
    }
    expect(bench.scheduler.abort(calling())).toEqual(['a']);
    bench.step();
    bench.scheduler.verify();
    function* disposing(): Generator<string> {
      bench.scheduler.dispose();
      yield 'c';
    }
    expect(codeOf(() => bench.scheduler.abort(disposing()))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
});

describe('strict mode', () => {
  const anomaly = 'ERR_BLOCKSTEP_ANOMALY';

  it('throws anomalies, counts them, and changes nothing else', () => {
    const handle = (bench: Bench) => bench.scheduler.get('a')?.handle as number;
    checkRefused(
      'draining',
      [
        ...each('abort', [STALE_HANDLE, ['nobody', STALE_HANDLE]], abort, anomaly),
        ...each(
          'hold',
          [STALE_HANDLE],
          (bench, stale) => bench.scheduler.hold(stale as number, 'load', 'x'),
          anomaly,
        ),
        ...each(
          'complete',
          ['x'],
          (bench, owner) => bench.scheduler.complete(handle(bench), 'load', owner as string),
          anomaly,
        ),
      ],
      { strict: true },
    );
    const { scheduler } = benchIn('running', { strict: true });
    expect(scheduler.hold(scheduler.get('a')!.handle, 'load', 'x')).toBe(true);
    expect(codeOf(() => scheduler.hold(scheduler.get('a')!.handle, 'load', 'x'))).toBe(anomaly);
    expect(scheduler.complete(scheduler.get('a')!.handle, 'load', 'x')).toBe(true);
    expect(codeOf(() => scheduler.complete(scheduler.get('a')!.handle, 'load', 'x'))).toBe(anomaly);
    expect(scheduler.stats().anomalies).toEqual({ 'duplicate-hold': 1, 'duplicate-completion': 1 });
  });

  it.each(LIVE_STATES)('throws when the call has done its work, when %s', (state) => {
    const strict = benchIn(state, { strict: true });
    const twin = benchIn(state);
    for (const keys of [
      ['a', STALE_HANDLE],
      [STALE_HANDLE, 'nobody', 'c', 'a'],
    ]) {
      expect(codeOf(() => abort(strict, keys))).toBe(anomaly);
      abort(twin, keys);
      expect(snapshot(strict.scheduler)).toEqual(snapshot(twin.scheduler));
      expect(strict.scheduler.stats().anomalies).toEqual(twin.scheduler.stats().anomalies);
    }
    sameSteps(strict, twin, state);
  });
});
