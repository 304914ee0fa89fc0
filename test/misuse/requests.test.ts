// `add`: every field of a request, read once and copied.
import { types } from 'node:util';
import { describe, expect, it } from 'vitest';
import { SLOT_LIMIT } from '../../src/core/core.js';
import type { Grammar, RequestInput } from '../../src/index.js';
import {
  booby,
  detach,
  foreignRealm,
  hostile,
  lying,
  MINE,
  NO_BOOLEANS,
  NO_COUNTS,
  NO_FINITE_NUMBERS,
  NO_INTEGERS,
  NO_STRINGS,
  NO_TOKEN_IDS,
  TOKEN_IDS,
  TOO_LONG,
  throwingProxy,
} from './bad-values.js';
import { type Bench, benchIn, errorOf, LIVE_STATES, prompt, sameAfter, snapshot } from './bench.js';
import { checkRefused, each, eachMade, type Misuse } from './misuse.js';

const INPUT: RequestInput = { id: 'new', prompt: prompt(6), maxTokens: 4 };

function addInput(bench: Bench, input: unknown): unknown {
  return bench.scheduler.add(input as RequestInput);
}

function addWith(field: keyof RequestInput): (bench: Bench, value: unknown) => unknown {
  return (bench, value) => addInput(bench, { ...INPUT, [field]: value });
}

function field(name: keyof RequestInput, values: readonly unknown[]): Misuse[] {
  return each(name, values, addWith(name));
}

/** A getter for one field, beside the other fields of a good request. */
function withGetter(name: keyof RequestInput, get: () => unknown): RequestInput {
  return Object.defineProperty({ ...INPUT }, name, { get, enumerable: true });
}

const FIELDS = ['id', 'prompt', 'maxTokens', 'minTokens', 'eosTokenId', 'ignoreEos', 'stopTokenIds'] as const;
const MORE_FIELDS = [
  'params',
  'priority',
  'arrivalTime',
  'cacheSalt',
  'adapter',
  'resumable',
  'grammar',
  'timeoutMs',
  'transferParams',
] as const;

const GRAMMAR: Grammar = { ready: () => true, acceptTokens: () => true, validateTokens: () => 0 };
const GRAMMAR_METHODS = ['ready', 'acceptTokens', 'validateTokens'] as const;

const sparse = [1, 2, 3];
delete sparse[1];

const MISUSES: Record<string, Misuse[]> = {
  input: [
    ...each(
      'input',
      [undefined, null, 1, 'x', true, 1n, Symbol('s'), () => INPUT, {}, [], [INPUT]],
      addInput,
    ),
    ...each('input', [throwingProxy({}), throwingProxy(INPUT)], addInput, MINE),
    ...[...FIELDS, ...MORE_FIELDS].flatMap((name) =>
      each(`getter of ${name}`, [withGetter(name, hostile)], addInput, MINE),
    ),
  ],
  id: field('id', [...NO_STRINGS, undefined, '', TOO_LONG]),
  prompt: [
    ...eachMade('prompt', NO_TOKEN_IDS, addWith('prompt')),
    ...eachMade('prompt', [() => detach(Int32Array.of(1, 2))], addWith('prompt')),
    ...field('prompt', [
      undefined,
      new Int32Array(0),
      Int32Array.of(1, -1),
      Int32Array.of(1, -(2 ** 31)),
      Int32Array.of(1, 2 ** 31 - 1),
      sparse,
    ]),
    ...field(
      'prompt',
      [...NO_COUNTS, undefined, 2 ** 31 - 1].map((token) => [1, token]),
    ),
    ...each('prompt', [throwingProxy([1]), throwingElement(), throwingLength()], addWith('prompt'), MINE),
  ],
  maxTokens: field('maxTokens', [...NO_COUNTS, undefined, 0, -0]),
  minTokens: field('minTokens', [...NO_COUNTS, INPUT.maxTokens + 1, 2 ** 31 - 1]),
  eosTokenId: field('eosTokenId', [...NO_COUNTS, 2 ** 31 - 1]),
  ignoreEos: field('ignoreEos', NO_BOOLEANS),
  stopTokenIds: [
    ...eachMade(
      'stopTokenIds',
      NO_TOKEN_IDS.filter((make) => !isEmpty(make())),
      addWith('stopTokenIds'),
    ),
    ...field(
      'stopTokenIds',
      [...NO_COUNTS, undefined, 2 ** 31 - 1].map((token) => [1, token]),
    ),
    ...field('stopTokenIds', [Int32Array.of(1, -1), Int32Array.of(2 ** 31 - 1)]),
    ...field('stopTokenIds', [sparse, [[1]], ['1']]),
    ...each('stopTokenIds', [throwingProxy([1]), throwingElement()], addWith('stopTokenIds'), MINE),
  ],
  priority: field('priority', [...NO_INTEGERS, 2 ** 31, -(2 ** 31), 2 ** 32]),
  arrivalTime: field('arrivalTime', NO_FINITE_NUMBERS),
  cacheSalt: field('cacheSalt', [...NO_STRINGS, TOO_LONG]),
  adapter: field('adapter', [...NO_STRINGS, TOO_LONG]),
  resumable: field('resumable', NO_BOOLEANS),
  grammar: [
    ...field('grammar', [null, 1, 'x', true, 1n, Symbol('s'), () => GRAMMAR, {}, [], new Map()]),
    ...GRAMMAR_METHODS.flatMap((name) =>
      field(
        'grammar',
        [undefined, null, 1, 'x', {}, Symbol('s')].map((method) => ({ ...GRAMMAR, [name]: method })),
      ),
    ),
    ...each(
      'grammar',
      GRAMMAR_METHODS.map((name) => Object.defineProperty({ ...GRAMMAR }, name, { get: hostile })),
      addWith('grammar'),
      MINE,
    ),
    ...each('grammar', [throwingProxy({}), throwingProxy(GRAMMAR)], addWith('grammar'), MINE),
  ],
  fit: [...each('prompt', [prompt(64), prompt(1000)], addWith('prompt'), 'ERR_BLOCKSTEP_UNFIT')],
};

/** Without stop tokens a request is good. */
function isEmpty(value: unknown): boolean {
  return (Array.isArray(value) || types.isUint16Array(value)) && value.length === 0;
}

function throwingLength(): object {
  return Object.defineProperty({ 0: 1 }, 'length', { get: hostile });
}

function throwingElement(): number[] {
  return Object.defineProperty([1, 2], 1, { get: hostile });
}

describe.each(LIVE_STATES)('add, when %s', (state) => {
  it.each(Object.keys(MISUSES))('refuses every bad %s and changes nothing', (group) => {
    checkRefused(state, MISUSES[group]);
  });

  it.each(Object.keys(MISUSES))('refuses every bad %s while it writes a log', (group) => {
    checkRefused(state, MISUSES[group], { log: { write() {} } });
  });
});

describe('add', () => {
  it.each(['running', 'in flight', 'draining'] as const)('refuses an id in use, when %s', (state) => {
    const again = each('id', ['a', 'b', 'c'], addWith('id'), 'ERR_BLOCKSTEP_DUPLICATE_ID');
    checkRefused(state, again);
  });

  it('takes the id of a request that has finished and still drains', () => {
    const bench = benchIn('draining');
    const handle = bench.scheduler.add({ ...INPUT, id: 'd' });
    expect(bench.scheduler.getByHandle(handle)?.id).toBe('d');
    bench.step();
    bench.scheduler.verify();
  });

  it('refuses a prompt that the pool can never hold', () => {
    const unfit = each('prompt', [prompt(21)], addWith('prompt'), 'ERR_BLOCKSTEP_UNFIT');
    checkRefused('fresh', unfit, { numBlocks: 6 });
  });

  it('reads each field once: what was checked is what is used', () => {
    const bench = benchIn('running');
    const reads: string[] = [];
    const input = new Proxy(INPUT, {
      get(target, key) {
        reads.push(String(key));
        return reads.indexOf(String(key)) === reads.length - 1 ? Reflect.get(target, key) : hostile();
      },
    });
    bench.scheduler.add(input);
    expect([...reads].sort()).toEqual([...FIELDS, ...MORE_FIELDS].sort());
  });

  it('takes a prompt of another realm, and reads no property that the caller put on one', () => {
    for (const options of [{}, { log: { write() {} } }]) {
      for (const odd of [foreignRealm('Int32Array.of(1, 2, 3)'), booby(Int32Array.of(1, 2, 3))]) {
        const [bench, twin] = [benchIn('running', options), benchIn('running', options)];
        addWith('prompt')(bench, odd);
        addWith('prompt')(twin, Int32Array.of(1, 2, 3));
        expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
      }
    }
  });

  it('takes a prompt and stop tokens from any array-like, as if they were Int32Arrays', () => {
    for (const make of TOKEN_IDS) {
      const options = { log: { write() {} } };
      const [bench, twin] = [benchIn('running', options), benchIn('running', options)];
      const given = make();
      bench.scheduler.add({ ...INPUT, prompt: given, stopTokenIds: make() });
      twin.scheduler.add({ ...INPUT, prompt: Int32Array.of(1, 2, 3), stopTokenIds: [1, 2, 3] });
      expect(snapshot(bench.scheduler)).toEqual(snapshot(twin.scheduler));
      expect(bench.scheduler.get('new')?.stopTokenIds).toEqual([1, 2, 3]);
    }
    const bench = benchIn('fresh', { maxModelLen: 200_000, numBlocks: 60_000 });
    const long = Array.from({ length: 150_001 }, (_, i) => i);
    bench.scheduler.add({ ...INPUT, prompt: long });
    expect(bench.scheduler.core.tokens(0)).toEqual(Int32Array.from(long));
  });

  it('copies the prompt that it was given', () => {
    const bench = benchIn('fresh');
    for (const given of [[5, 6, 7], Int32Array.of(5, 6, 7), Uint16Array.of(5, 6, 7)]) {
      const handle = bench.scheduler.add({ ...INPUT, id: `id${given.constructor.name}`, prompt: given });
      given[1] = 9;
      expect(bench.scheduler.core.tokens(handle % SLOT_LIMIT)).toEqual(Int32Array.of(5, 6, 7));
    }
  });

  it('reads each element of a prompt, and its length, once', () => {
    const reads: string[] = [];
    const prompt = new Proxy([4, 5], {
      get: (target, key) => {
        reads.push(String(key));
        return Reflect.get(target, key) as unknown;
      },
    });
    benchIn('fresh').scheduler.add({ ...INPUT, prompt });
    expect(reads).toEqual(['length', '0', '1']);
  });

  it('names the first element that is no token id, and its value', () => {
    const messageOf = (prompt: unknown, field = 'prompt'): string =>
      (errorOf(() => addInput(benchIn('fresh'), { ...INPUT, [field]: prompt })) as Error).message;
    expect(messageOf([1, 2, 0.5, -1])).toBe('prompt[2] must be an integer from 0 to 2147483646, got 0.5');
    expect(messageOf([1, -1, 0.5])).toContain('prompt[1]');
    expect(messageOf([1, 2 ** 31 - 1, 0.5])).toContain('prompt[1]');
    expect(messageOf(BigInt64Array.of(7n))).toBe('prompt[0] must be an integer from 0 to 2147483646, got 7n');
    expect(messageOf([1, 'x'], 'stopTokenIds')).toBe(
      'stopTokenIds[1] must be an integer from 0 to 2147483646, got "x"',
    );
    expect(messageOf(Int32Array.of(1, -7), 'stopTokenIds')).toContain('stopTokenIds[1]');
    expect(messageOf('Hello')).toBe('prompt must be an array of token ids, got "Hello"');
  });

  it('reads each stop token once, and leaves no half-added request when one changes or throws later', () => {
    for (const log of [undefined, { write() {} }]) {
      const bench = benchIn('running', log === undefined ? {} : { log });
      let reads = 0;
      const stops = Object.defineProperty([5, 6], 0, { get: () => (reads++ === 0 ? 5 : hostile()) });
      sameAfter(bench, () => bench.scheduler.add({ ...INPUT, stopTokenIds: stops }));
    }
  });

  it('keeps of the stop tokens what they were', () => {
    const bench = benchIn('fresh');
    const stopTokenIds = [7];
    bench.scheduler.add({ ...INPUT, stopTokenIds });
    stopTokenIds[0] = 8;
    expect(bench.scheduler.get('new')?.stopTokenIds).toEqual([7]);
  });

  it('takes what its client gives for others though it cannot be logged', () => {
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    for (const extra of [1n, circular, { toJSON: hostile }]) {
      const bench = benchIn('running', { log: { write() {} } });
      bench.scheduler.add({ ...INPUT, params: extra, transferParams: { extra } });
      bench.step();
      bench.scheduler.verify();
    }
  });

  it('a prompt that lies about its length is refused or taken as what it is', () => {
    for (const length of [0, 1, 3, 9, 1e9, -1, Number.NaN]) {
      const bench = benchIn('running');
      sameAfter(bench, () => bench.scheduler.add({ ...INPUT, prompt: lying(Int32Array.of(4, 5), length) }));
    }
  });

  it('takes the limits of every field', () => {
    const bench = benchIn('running');
    bench.scheduler.add({
      id: 'x'.repeat(65_536),
      prompt: new Int32Array(Int32Array.of(-1, 0, 2 ** 31 - 2, 5, -1).buffer, 4, 3),
      maxTokens: 2 ** 31 - 1,
      minTokens: -0,
      eosTokenId: 2 ** 31 - 2,
      stopTokenIds: [-0, 2 ** 31 - 2],
      priority: -(2 ** 31 - 1),
      arrivalTime: -Number.MAX_VALUE,
      cacheSalt: '€'.repeat(65_536),
      adapter: '\ud800\0',
    });
    bench.scheduler.add({ ...INPUT, id: ' ', priority: 2 ** 31 - 1, arrivalTime: -0 });
    for (let i = 0; i < 4; i++) bench.step();
    bench.scheduler.verify();
  });

  it('salts that differ in lone surrogates only do not share a prefix', () => {
    const bench = benchIn('fresh');
    bench.scheduler.add({ id: 'one', prompt: prompt(13), maxTokens: 1, cacheSalt: '\ud800' });
    bench.step();
    bench.scheduler.add({ id: 'two', prompt: prompt(13), maxTokens: 1, cacheSalt: '\ud801' });
    bench.scheduler.add({ id: 'three', prompt: prompt(13), maxTokens: 1, cacheSalt: '\ud800' });
    const { requests } = bench.schedule();
    expect(requests.map((request) => request.numCachedTokens)).toEqual([0, 12]);
  });
});
