// `addChunk`: every field of a chunk, and sizes that can never fit.
import { describe, expect, it } from 'vitest';
import type { ChunkInput } from '../../src/index.js';
import {
  booby,
  detach,
  foreignRealm,
  hostile,
  MINE,
  NO_BOOLEANS,
  NO_COUNTS,
  NO_FINITE_NUMBERS,
  NO_INTEGERS,
  NO_TOKEN_IDS,
  TOKEN_IDS,
  throwingProxy,
} from './bad-values.js';
import { type Bench, benchIn, codeOf, errorOf, LIVE_STATES, prompt, snapshot } from './bench.js';
import { checkRefused, each, eachMade, type Misuse } from './misuse.js';

const CHUNK: ChunkInput = { prompt: prompt(3), maxTokens: 4 };

const chunk = (bench: Bench, value: unknown) => bench.scheduler.addChunk('b', value as ChunkInput);
const chunkWith = (field: keyof ChunkInput) => (bench: Bench, value: unknown) =>
  chunk(bench, { ...CHUNK, [field]: value });
const field = (name: keyof ChunkInput, values: readonly unknown[]) => each(name, values, chunkWith(name));
const withGetter = (name: string) => Object.defineProperty({ ...CHUNK }, name, { get: hostile });

/** Neither an id nor a handle. */
const NO_KEYS = [
  ...NO_INTEGERS.filter((value) => typeof value !== 'string'),
  -1,
  undefined,
  ['b'],
  new Set(['b']),
];
const FIELDS = [
  'prompt',
  'maxTokens',
  'params',
  'minTokens',
  'eosTokenId',
  'ignoreEos',
  'stopTokenIds',
  'arrivalTime',
] as const;

const MISUSES: Record<string, Misuse[]> = {
  key: [
    ...each('addChunk', NO_KEYS, (bench, key) => bench.scheduler.addChunk(key as string, CHUNK)),
    ...each('endSession', NO_KEYS, (bench, key) => bench.scheduler.endSession(key as string)),
  ],
  chunk: [
    ...each('chunk', [undefined, null, 1, 'x', true, 1n, Symbol('s'), () => CHUNK, {}, []], chunk),
    ...each('chunk', [throwingProxy({}), throwingProxy(CHUNK)], chunk, MINE),
    ...each('chunk', FIELDS.map(withGetter), chunk, MINE),
  ],
  prompt: [
    ...eachMade('prompt', NO_TOKEN_IDS, chunkWith('prompt')),
    ...eachMade('prompt', [() => detach(Int32Array.of(1, 2))], chunkWith('prompt')),
    ...field('prompt', [
      undefined,
      new Int32Array(0),
      Int32Array.of(1, -1),
      Int32Array.of(-(2 ** 31), 1),
      Int32Array.of(1, 2 ** 31 - 1, 1),
    ]),
  ],
  maxTokens: field('maxTokens', [...NO_COUNTS, 0, -0]),
  minTokens: field('minTokens', [...NO_COUNTS, 5, 2 ** 31 - 1]),
  eosTokenId: field('eosTokenId', [...NO_COUNTS, 2 ** 31 - 1]),
  ignoreEos: field('ignoreEos', NO_BOOLEANS),
  stopTokenIds: field('stopTokenIds', [null, 1, '1', {}, new Set([1]), [1, -1], [undefined], [[1]]]),
  arrivalTime: field('arrivalTime', NO_FINITE_NUMBERS),
};

describe.each(LIVE_STATES)('a session, when %s', (state) => {
  it.each(Object.keys(MISUSES))('refuses every bad %s and changes nothing', (group) => {
    checkRefused(state, MISUSES[group]);
    checkRefused(state, MISUSES[group], { log: { write() {} } });
  });
});

describe('addChunk', () => {
  it('refuses what can never fit the model or the pool, and takes what just does', () => {
    const tooLong = each('prompt', [prompt(55), prompt(1000)], chunkWith('prompt'), 'ERR_BLOCKSTEP_UNFIT');
    checkRefused('running', tooLong);
    expect(chunk(benchIn('running'), { prompt: prompt(54) })).toBe('queued');
    const small = { numBlocks: 10, maxModelLen: 64 };
    checkRefused('running', each('prompt', [prompt(28)], chunkWith('prompt'), 'ERR_BLOCKSTEP_UNFIT'), small);
    const bench = benchIn('running', small);
    expect(chunk(bench, { prompt: prompt(20) })).toBe('queued');
    expect(codeOf(() => chunk(bench, { prompt: prompt(8) }))).toBe('ERR_BLOCKSTEP_UNFIT');
    expect(chunk(bench, { prompt: prompt(7) })).toBe('queued');
  });

  it('does not refuse it where refuseUnfit is off', () => {
    const bench = benchIn('running', { deviations: ['refuseUnfit'] });
    expect(chunk(bench, { prompt: prompt(55) })).toBe('queued');
    bench.step();
    bench.scheduler.verify();
  });

  it('refuses minTokens of the session that its own maxTokens fall below', () => {
    const bench = benchIn('fresh');
    bench.add('b', 6, { resumable: true, minTokens: 9 });
    expect(codeOf(() => chunk(bench, { prompt: prompt(3), maxTokens: 8 }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(chunk(bench, { prompt: prompt(3), maxTokens: 8, minTokens: 0 })).toBe('queued');
  });

  it('names the field of the chunk that is wrong, its value and what was expected', () => {
    const bench = benchIn('fresh');
    bench.add('b', 6, { resumable: true, minTokens: 9 });
    const messageOf = (more: Record<string, unknown>) =>
      (errorOf(() => chunk(bench, { prompt: prompt(3), ...more })) as Error).message;
    expect(messageOf({ maxTokens: 8 })).toBe(
      'maxTokens must be at least 9, the minTokens of its session, got 8',
    );
    expect(messageOf({ minTokens: 21 })).toBe(
      'minTokens must be at most 20, the maxTokens of its session, got 21',
    );
    expect(messageOf({ maxTokens: 8, minTokens: 9 })).toBe('minTokens must be an integer from 0 to 8, got 9');
    expect(messageOf({ maxTokens: 0 })).toBe('maxTokens must be an integer from 1 to 2147483647, got 0');
    expect(messageOf({ minTokens: -1 })).toBe('minTokens must be an integer from 0 to 2147483647, got -1');
    expect(messageOf({ eosTokenId: -1 })).toBe('eosTokenId must be an integer from 0 to 2147483646, got -1');
    expect(messageOf({ ignoreEos: 1 })).toBe('ignoreEos must be a boolean, got 1');
    expect(messageOf({ stopTokenIds: [4, -1] })).toBe(
      'stopTokenIds[1] must be an integer from 0 to 2147483646, got -1',
    );
    expect(messageOf({ arrivalTime: Number.NaN })).toBe('arrivalTime must be a finite number, got NaN');
    expect(messageOf({ prompt: Int32Array.of(3, -5) })).toBe(
      'prompt[1] must be an integer from 0 to 2147483646, got -5',
    );
    expect(messageOf({ prompt: new Int32Array(0) })).toBe('prompt must be at least one token, got none');
    expect(messageOf({ prompt: prompt(60) })).toBe(
      'a chunk of 60 tokens, 66 in all, leaves no room for output: maxModelLen is 64',
    );
  });

  it('reads each field once, and keeps what it read', () => {
    const reads: string[] = [];
    const once = new Proxy(CHUNK, {
      get(target, key) {
        reads.push(String(key));
        return reads.indexOf(String(key)) === reads.length - 1 ? Reflect.get(target, key) : hostile();
      },
    });
    const bench = benchIn('running');
    chunk(bench, once);
    expect([...reads].sort()).toEqual([...FIELDS].sort());
    const mine = prompt(3);
    const twin = benchIn('running');
    chunk(twin, { ...CHUNK, prompt: mine });
    mine.fill(99);
    expect(snapshot(twin.scheduler)).toEqual(snapshot(bench.scheduler));
  });

  it('takes a prompt from any array-like', () => {
    for (const make of TOKEN_IDS) {
      const [bench, twin] = [benchIn('running'), benchIn('running')];
      chunkWith('prompt')(bench, make());
      chunkWith('prompt')(twin, Int32Array.of(1, 2, 3));
      expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
    }
  });

  it('takes a prompt of another realm, and reads no property that the caller put on one', () => {
    for (const odd of [foreignRealm('Int32Array.of(1, 2, 3)'), booby(Int32Array.of(1, 2, 3))]) {
      const [bench, twin] = [benchIn('running'), benchIn('running')];
      chunkWith('prompt')(bench, odd);
      chunkWith('prompt')(twin, Int32Array.of(1, 2, 3));
      expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
    }
  });

  it('of a getter that calls back is refused like any call from inside a callback', () => {
    const bench = benchIn('running');
    const calling = Object.defineProperty({ ...CHUNK }, 'maxTokens', {
      get: () => bench.scheduler.schedule(),
    });
    expect(codeOf(() => chunk(bench, calling))).toBe('ERR_BLOCKSTEP_REENTRANT');
    bench.step();
    bench.scheduler.verify();
  });

  it('takes a hundred thousand chunks without a limit of its own, and forgets them with the session', () => {
    const bench = benchIn('running', { deviations: ['refuseUnfit'] });
    for (let i = 0; i < 100_000; i++) chunk(bench, { prompt: prompt(1) });
    expect(bench.scheduler.get('b')?.session?.queue).toHaveLength(100_000);
    bench.scheduler.abort('b');
    expect(errorOf(() => chunk(bench, null))).toMatchObject({ code: 'ERR_BLOCKSTEP_BAD_ARG' });
    expect(chunk(bench, CHUNK)).toBe('skipped');
  });
});
