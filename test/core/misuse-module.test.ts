// Misuse of the functions of the addon's module itself: `create` and `replay`.
import { beforeEach, describe, expect, it } from 'vitest';
import { Control } from '../../src/core/core.js';
import { exchangeWords } from '../../src/core/exchange.js';
import { loadAddon } from '../../src/core/loader.js';
import type { NativeConfig, NativeCore } from '../../src/core/native/native.js';
import { BenchCore, codeOf } from '../support/core-bench.js';
import { type BufferClass, NO_ARRAYS, NO_INTEGERS, proxy } from './bad-arguments.js';

describe('misuse of the module', () => {
  const config = (): NativeConfig => ({ ...goodConfig });
  const buffer = (bytes = 4 * exchangeWords(goodConfig)) => new ArrayBuffer(bytes);
  let goodConfig: NativeConfig;
  beforeEach(() => {
    using core = new BenchCore(loadAddon());
    goodConfig = { ...core.config };
  });

  it('create and replay refuse every bad value of every field', () => {
    for (const name of Object.keys(goodConfig) as (keyof NativeConfig)[]) {
      const bad = [...NO_INTEGERS];
      if (name === 'hashSeed') {
        const seeds = [
          new Uint8Array(15),
          new Uint8Array(17),
          new Uint8Array(0),
          new Uint32Array(16),
          new DataView(buffer(16)),
        ];
        bad.push(...seeds, new Uint8Array(new SharedArrayBuffer(16)));
      }
      for (const value of bad) {
        if (name === 'enablePrefixCaching' && value === true) continue;
        // Absent, it is off.
        if ((name.startsWith('kvEvents') || name === 'freeOrder') && value === undefined) continue;
        if (name === 'kvEventsByBlock' && value === true) continue;
        const wrong = { ...config(), [name]: value };
        expect(
          codeOf(() => loadAddon().create(wrong as NativeConfig, buffer())),
          name,
        ).toBe('ERR_BLOCKSTEP_BAD_ARG');
        const replay = () => loadAddon().replay(wrong as NativeConfig, new Uint32Array(0));
        expect(codeOf(replay), name).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
    }
    for (const value of [undefined, null, 1, 'x', Symbol('s'), () => 1, {}, []]) {
      expect(codeOf(() => loadAddon().create(value as NativeConfig, buffer()))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    using fine = new BenchCore(loadAddon(), { hashSeed: Buffer.alloc(16) });
    fine.native.verify();
  });

  it('create refuses what is no fitting exchange buffer', () => {
    const resizable = new (ArrayBuffer as never as BufferClass)(buffer().byteLength, {
      maxByteLength: 2 ** 20,
    });
    const gone = buffer();
    structuredClone(gone, { transfer: [gone] });
    const bad = [
      undefined,
      null,
      1,
      {},
      new Int32Array(8),
      new SharedArrayBuffer(buffer().byteLength),
      resizable,
    ];
    bad.push(buffer(0), buffer(buffer().byteLength - 4), buffer(buffer().byteLength + 4), proxy(buffer()));
    for (const value of bad) {
      expect(codeOf(() => loadAddon().create(config(), value as ArrayBuffer))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(codeOf(() => loadAddon().create(config(), gone))).toBe('ERR_BLOCKSTEP_DETACHED');
  });

  it('a resizable buffer that hides its nature is refused once it changes', () => {
    const hidden = new (ArrayBuffer as never as BufferClass)(buffer().byteLength, { maxByteLength: 2 ** 20 });
    Object.defineProperty(hidden, 'resizable', { value: false });
    const native = loadAddon().create(config(), hidden);
    native.verify();
    (hidden as never as { resize(bytes: number): void }).resize(64);
    expect(codeOf(() => native.verify())).toBe('ERR_BLOCKSTEP_DETACHED');
    native.dispose();
  });

  it('getters of the configuration may throw, and may dispose other cores', () => {
    const error = new Error('mine');
    const throwing = {
      ...config(),
      get lookahead(): number {
        throw error;
      },
    };
    expect(() => loadAddon().create(throwing, buffer())).toThrow(error);
    expect(() => loadAddon().create(proxy(config()) as NativeConfig, buffer())).toThrow('must not run');
    const other = new BenchCore(loadAddon());
    const exchange = buffer();
    const treacherous = {
      ...config(),
      get lookahead() {
        other.dispose();
        structuredClone(exchange, { transfer: [exchange] });
        return 0;
      },
    };
    expect(codeOf(() => loadAddon().create(treacherous, exchange))).toBe('ERR_BLOCKSTEP_DETACHED');
    expect(codeOf(() => other.native.verify())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('the class cannot be constructed by hand', () => {
    using core = new BenchCore(loadAddon());
    const NativeClass = core.native.constructor as new () => NativeCore;
    expect(codeOf(() => new NativeClass())).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => Reflect.apply(NativeClass, undefined, []))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => Reflect.apply(NativeClass, core.native, []))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    class Derived extends NativeClass {}
    expect(codeOf(() => new Derived())).toBe('ERR_BLOCKSTEP_BAD_ARG');
    core.native.verify();
  });

  it('replay refuses what is no Uint32Array', () => {
    for (const make of [...NO_ARRAYS, () => Int32Array.of(1)]) {
      const log = make();
      if (log instanceof Uint32Array) continue;
      expect(codeOf(() => loadAddon().replay(config(), log as Uint32Array))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    const gone = new Uint32Array(2);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    expect(codeOf(() => loadAddon().replay(config(), gone))).toBe('ERR_BLOCKSTEP_DETACHED');
  });

  it('useErrorClass refuses what is no function, and passes on what a class throws', () => {
    const addon = loadAddon();
    using core = new BenchCore(addon);
    for (const value of [undefined, null, 1, 'x', {}, Symbol('s')]) {
      expect(codeOf(() => addon.useErrorClass(value as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    let original: unknown;
    try {
      core.native.refCount(-1);
    } catch (error) {
      original = (error as object).constructor;
    }
    try {
      const mine = new TypeError('mine');
      addon.useErrorClass(
        class extends Error {
          constructor() {
            super();
            throw mine;
          }
        } as never,
      );
      expect(() => core.native.refCount(-1)).toThrow(mine);
    } finally {
      addon.useErrorClass(original as never);
    }
    expect(codeOf(() => core.native.refCount(-1))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('numPending is never trusted', () => {
    using core = new BenchCore(loadAddon());
    core.control[Control.numPending] = core.config.pendingCapacity + 1;
    expect(codeOf(() => core.native.flush())).toBe('ERR_BLOCKSTEP_INVARIANT');
    expect(core.native.memory().stateBytes).toBeGreaterThan(0);
  });
});
