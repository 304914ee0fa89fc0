// Every bad value in every place of every method of a core is refused and changes nothing.
import vm from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/core/loader.js';
import type { NativeCore } from '../../src/core/native/native.js';
import type { TablesShape } from '../../src/core/native/native-tables.js';
import { tablesBytes } from '../../src/core/tables.js';
import { BenchCore, codeOf, range, SMALL } from '../support/core-bench.js';
import { type BufferClass, detached, NO_ARRAYS, NO_INTEGERS, proxy } from './bad-arguments.js';

type Kind = 'integer' | 'ids' | 'out' | 'string' | 'boolean' | 'buffer' | 'stream';

type Entry = {
  name: keyof NativeCore;
  kinds: Kind[];
  good: () => unknown[];
  once?: boolean;
  optional?: number;
};

const ids = () => Int32Array.of(20);

const out = () => new Int32Array(4);

/** Memory for the tables of 8 tokens, on the bench below. */
const tables = (options?: { maxByteLength: number }, more = 0) =>
  new (ArrayBuffer as never as BufferClass)(
    tablesBytes({ ...(SMALL as TablesShape), maxTokens: 8 }) + more,
    options,
  );

/** Every method with the kinds of its arguments and a call that succeeds on the bench below. */
const ENTRIES: Entry[] = [
  { name: 'run', kinds: ['integer', 'integer', 'integer'], good: () => [0, 0, 1] },
  { name: 'add', kinds: ['ids', 'string', 'string'], good: () => [Int32Array.of(1, 2), '', ''] },
  { name: 'match', kinds: ['integer', 'integer'], good: () => [0, 2] },
  { name: 'admit', kinds: range(7).map(() => 'integer'), good: () => [0, 0, 0, 8, 8, 0, 0], optional: 2 },
  { name: 'commonPrefix', kinds: ['integer'], good: () => [0] },
  { name: 'bindTables', kinds: ['integer', 'buffer', 'integer'], good: () => [1, tables(), 8], once: true },
  { name: 'gather', kinds: ['integer', 'integer'], good: () => [0, 1] },
  { name: 'flush', kinds: [], good: () => [] },
  { name: 'pin', kinds: ['ids'], good: () => [ids()] },
  { name: 'unpin', kinds: ['ids'], good: () => [Int32Array.of(5)] },
  { name: 'evict', kinds: ['ids'], good: () => [ids()] },
  { name: 'reset', kinds: [], good: () => [] },
  { name: 'handle', kinds: ['integer'], good: () => [0] },
  { name: 'numTokens', kinds: ['integer'], good: () => [0] },
  { name: 'readTokens', kinds: ['integer', 'integer', 'out'], good: () => [0, 0, out()] },
  { name: 'readBlocks', kinds: ['integer', 'integer', 'out'], good: () => [0, 0, out(), 0] },
  { name: 'publishedGroup', kinds: ['integer'], good: () => [1] },
  { name: 'readFreeQueue', kinds: ['out'], good: () => [out()] },
  { name: 'readPublished', kinds: ['out'], good: () => [out()] },
  { name: 'refCount', kinds: ['integer'], good: () => [1] },
  { name: 'blockGeneration', kinds: ['integer'], good: () => [1] },
  { name: 'blockHash', kinds: ['integer', 'integer'], good: () => [0, 0] },
  { name: 'publishedHash', kinds: ['integer'], good: () => [1] },
  { name: 'verify', kinds: [], good: () => [] },
  { name: 'digest', kinds: [], good: () => [] },
  { name: 'rollingDigest', kinds: [], good: () => [] },
  { name: 'submit', kinds: ['stream'], good: () => [1n] },
  { name: 'poll', kinds: [], good: () => [] },
  { name: 'startMirrorDigest', kinds: [], good: () => [] },
  { name: 'mirrorDigest', kinds: [], good: () => [] },
  { name: 'record', kinds: ['boolean'], good: () => [false] },
  { name: 'drainLog', kinds: [], good: () => [] },
  { name: 'drainKvEvents', kinds: [], good: () => [] },
  { name: 'memory', kinds: [], good: () => [] },
];

function detachedBuffer(): ArrayBuffer {
  const buffer = tables();
  structuredClone(buffer, { transfer: [buffer] });
  return buffer;
}

/** Wrong for every ArrayBuffer argument. */
const NO_BUFFERS: (() => unknown)[] = [
  ...[undefined, null, 1, 'x', 1n, Symbol('s'), {}, [], () => 1].map((v) => () => v),
  () => new Int32Array(tables()),
  () => new SharedArrayBuffer(tables().byteLength),
  () => tables({ maxByteLength: 2 ** 16 }),
  () => tables(undefined, 4),
  () => tables(undefined, -4),
  () => new ArrayBuffer(0),
  () => proxy(tables()),
  () => Object.create(ArrayBuffer.prototype),
  detachedBuffer,
];

const NO_STRINGS: unknown[] = [
  undefined,
  null,
  1,
  Symbol('s'),
  {},
  Object('a'),
  'x'.repeat(65_537),
  proxy({}),
];

/** Wrong for every cudaStream_t; undefined and null stand for none. */
const NO_STREAMS: unknown[] = [
  true,
  0,
  1,
  '',
  '1n',
  {},
  [],
  Symbol('s'),
  () => 1n,
  Object(1n),
  -1n,
  2n ** 64n,
  proxy({}),
];

const NO_BOOLEANS: unknown[] = [undefined, null, 0, 1, 'true', {}, Object(true), Symbol('s')];

function badValues(kind: Kind): (() => unknown)[] {
  if (kind === 'integer') return NO_INTEGERS.map((value) => () => value);
  if (kind === 'string') return NO_STRINGS.map((value) => () => value);
  if (kind === 'boolean') return NO_BOOLEANS.map((value) => () => value);
  if (kind === 'stream') return NO_STREAMS.map((value) => () => value);
  if (kind === 'buffer') return NO_BUFFERS;
  return NO_ARRAYS;
}

const call = (core: NativeCore, entry: Entry, args: unknown[]) =>
  (core[entry.name] as (...args: unknown[]) => unknown)(...args);

/** Calls that only a core on a GPU has to answer: their arguments are tried in test/cuda. */
const OF_A_GPU = [
  'makeDeviceTables',
  'gatherOnDevice',
  'gathersGiven',
  'gathersDone',
  'gatherWaits',
  'readDeviceTable',
  'submitDecision',
  'pollDecision',
] as const satisfies readonly (keyof NativeCore)[];

/**
 * Calls that only a core with KV cache groups has to answer: arguments are tried in groups.test.ts.
 */
const OF_GROUPS = [
  'beginStep',
  'matchGroups',
  'admitGroups',
  'neededGroups',
  'commonPrefixGroups',
  'dropGroups',
  'junction',
  'drainZeroed',
  'drainDropped',
  'groupsOfBlocks',
  'countGroups',
] as const satisfies readonly (keyof NativeCore)[];

describe('misuse of a core', () => {
  let core: BenchCore;
  beforeEach(() => {
    core = new BenchCore(loadAddon());
    const slot = core.start(range(9));
    core.native.pin(Int32Array.of(5, 5));
    core.entry(0, slot, 8, 1);
    core.gather(0, 0);
  });
  afterEach(() => core.dispose());

  it('the matrix names every method', () => {
    const names = Object.getOwnPropertyNames(Object.getPrototypeOf(core.native));
    const tested = [...ENTRIES.map((entry) => entry.name), ...OF_A_GPU, ...OF_GROUPS];
    expect(names.sort()).toEqual([...tested, 'constructor', 'dispose'].sort());
  });

  it.each([...OF_A_GPU, ...OF_GROUPS])(
    '%s: a wrong receiver, or a core that was disposed, is refused',
    (name) => {
      const method = core.native[name] as () => unknown;
      for (const receiver of [undefined, {}, Object.create(core.native), new Proxy(core.native, {})]) {
        expect(codeOf(() => Reflect.apply(method, receiver, []))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
      }
      core.dispose();
      expect(codeOf(() => Reflect.apply(method, core.native, [0, 0, 0, new Int32Array(8)]))).toBe(
        'ERR_BLOCKSTEP_DISPOSED',
      );
    },
  );

  for (const entry of ENTRIES) {
    it(`${entry.name}: the good call succeeds, with more arguments than it takes, too`, () => {
      expect(() => call(core.native, entry, entry.good())).not.toThrow();
      while (!core.native.poll()); // with a mirror, one digest at a time
      const again = () => call(core.native, entry, [...entry.good(), 1n, {}]);
      if (entry.once) expect(codeOf(again)).toBe('ERR_BLOCKSTEP_BAD_ARG');
      else expect(again).not.toThrow();
    });

    it(`${entry.name}: every bad value in every place is refused, and nothing changes`, () => {
      const before = core.fingerprint();
      entry.kinds.forEach((kind, place) => {
        for (const make of badValues(kind)) {
          const args = entry.good();
          args[place] = make();
          const code = codeOf(() => call(core.native, entry, args));
          const gone = make === detached || make === detachedBuffer;
          expect(code).toBe(gone ? 'ERR_BLOCKSTEP_DETACHED' : 'ERR_BLOCKSTEP_BAD_ARG');
        }
        if (kind === 'stream' || place >= entry.kinds.length - (entry.optional ?? 0)) return; // may be left out
        expect(codeOf(() => call(core.native, entry, entry.good().slice(0, place)))).toBe(
          'ERR_BLOCKSTEP_BAD_ARG',
        );
      });
      expect(core.fingerprint()).toBe(before);
      core.native.verify();
    });

    it(`${entry.name}: a wrong receiver is refused`, () => {
      const { native } = core;
      const method = native[entry.name] as () => unknown;
      const prototype = Object.getPrototypeOf(native);
      const receivers = [
        undefined,
        null,
        1,
        'x',
        {},
        [],
        () => 1,
        Object.create(native),
        Object.create(prototype),
      ];
      receivers.push(prototype, new Proxy(native, {}), loadAddon(), new Date(), structuredClone({}));
      for (const receiver of receivers) {
        expect(codeOf(() => Reflect.apply(method, receiver, entry.good()))).toBe(
          'ERR_BLOCKSTEP_BAD_RECEIVER',
        );
      }
      expect(codeOf(() => Reflect.construct(method, entry.good()))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
    });

    it(`${entry.name}: refused after dispose, and with a detached exchange buffer`, () => {
      structuredClone(core.control.buffer, { transfer: [core.control.buffer as ArrayBuffer] });
      expect(codeOf(() => call(core.native, entry, entry.good()))).toBe('ERR_BLOCKSTEP_DETACHED');
      core.dispose();
      expect(codeOf(() => call(core.native, entry, entry.good()))).toBe('ERR_BLOCKSTEP_DISPOSED');
    });
  }

  it('dispose needs a core, too', () => {
    const method = core.native.dispose;
    expect(codeOf(() => Reflect.apply(method, {}, []))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
    expect(codeOf(() => Reflect.apply(method, Object.create(core.native), []))).toBe(
      'ERR_BLOCKSTEP_BAD_RECEIVER',
    );
    core.flush();
  });

  it('slots that are not open are refused by their code', () => {
    for (const entry of ENTRIES) {
      if (entry.good()[0] !== 0 || ['handle', 'run', 'gather'].includes(entry.name)) continue;
      for (const slot of [1, 2 ** 21 - 1]) {
        const args = [slot, ...entry.good().slice(1)];
        expect(
          codeOf(() => call(core.native, entry, args)),
          entry.name,
        ).toBe('ERR_BLOCKSTEP_BAD_SLOT');
      }
      expect(codeOf(() => call(core.native, entry, [2 ** 21, ...entry.good().slice(1)]))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    }
  });

  it('integers just outside their own range are refused, -0 is 0', () => {
    const bad: [keyof NativeCore, unknown[]][] = [
      ['run', [2, 0, 1]],
      ['run', [0, 0, 9]],
      ['run', [0, 9, 9]],
      ['gather', [2, 1]],
      ['gather', [0, 9]],
      ['gather', [1, 1]],
      ['bindTables', [2, tables(), 8]],
      ['bindTables', [0, tables(), 8]],
      ['bindTables', [1, tables(), 0]],
      ['admit', [0, 17, 0, 8, 8]],
      ['admit', [0, 0, 65, 8, 8]],
      ['admit', [0, 0, 0, 65, 8]],
      ['refCount', [33]],
      ['blockGeneration', [33]],
    ];
    for (const [name, args] of bad) {
      const entry = { name, kinds: [], good: () => args };
      expect(
        codeOf(() => call(core.native, entry, args)),
        name,
      ).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(core.native.run(-0, -0, -0)).toBe(0);
  });

  it('arrays of another realm and resizable ones are taken as they are now', () => {
    const foreign = vm.runInNewContext('Int32Array.of(1, 2, 3)') as Int32Array;
    expect([...core.tokens(core.open(foreign))]).toEqual([1, 2, 3]);
    expect(core.native.handle(core.native.add(foreign, '', '') % 2 ** 21)).toBeGreaterThan(0);
    const buffer = new (ArrayBuffer as never as BufferClass)(8, { maxByteLength: 16 });
    const tracking = new Int32Array(buffer);
    const fixed = new Int32Array(buffer, 4, 1);
    expect(core.native.readFreeQueue(tracking)).toBe(2);
    (buffer as never as { resize(bytes: number): void }).resize(4);
    expect(core.native.readFreeQueue(tracking)).toBe(1);
    expect(core.native.readFreeQueue(fixed)).toBe(0);
    expect([...core.tokens(core.native.add(fixed, '', '') % 2 ** 21)]).toEqual([]);
  });
});
