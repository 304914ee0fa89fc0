// Bad options, plans, tables and calls, of the native part too.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BlockstepError, type ErrorCode } from '../../../src/base/errors.js';
import { loadAddon } from '../../../src/core/loader.js';
import {
  makeStepIo,
  type NativeReferenceConfig,
  type StepIo,
} from '../../../src/core/native/native-reference.js';
import { tablesBytes } from '../../../src/core/tables.js';
import type { ExecutorPlan, ExecutorResult } from '../../../src/engine/executor/executor.js';
import { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';
import { Scheduler } from '../../../src/index.js';
import { MINE, NO_COUNTS, NO_FINITE_NUMBERS, throwingProxy } from '../../misuse/bad-values.js';
import { BenchCore, codeOf } from '../../support/core-bench.js';
import { ADMITTED, HAND, type HandEntry, handExecutor, handMade } from './hand.js';

const decode: HandEntry = { handle: 1, computed: 5, input: [7], blocks: [1, 2] };

function detachedOf<T extends ArrayBufferView>(array: T): T {
  structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] });
  return array;
}

/** The code of a refusal, or the hostile error that came through as it was. */
function refusal(act: () => unknown): ErrorCode | 'mine' {
  try {
    act();
  } catch (error) {
    if (error === MINE) return 'mine';
    if (error instanceof BlockstepError) return error.code;
    throw error;
  }
  throw new Error('the call was not refused');
}

describe('options of a reference executor', () => {
  const make = (options: object) => () => new ReferenceExecutor({ ...HAND, ...options } as never).dispose();
  const bad: Record<string, unknown[]> = {
    numBlocks: [...NO_COUNTS, undefined, 0, 1, 2 ** 20 + 1],
    blockSize: [...NO_COUNTS, 0, 2 ** 16 + 1],
    maxNumSeqs: [...NO_COUNTS, 0, 4097],
    maxNumBatchedTokens: [...NO_COUNTS, 0],
    maxModelLen: [...NO_COUNTS, 0],
    numSpeculativeTokens: [...NO_COUNTS, 65],
    pipelineDepth: [...NO_COUNTS, 0, 4],
    seed: [...NO_FINITE_NUMBERS, -1, 0.5, 2 ** 32],
    eosTokenId: [...NO_COUNTS, 2 ** 31 - 1],
    draftErrorRate: [...NO_FINITE_NUMBERS, -0.1, 1.1],
    latencyMs: [...NO_FINITE_NUMBERS, -1, 2 ** 31],
    onMismatch: ['', 'throw', null, 1, {}],
    defer: [null, 1, 'x', {}],
  };

  it.each(Object.entries(bad))('%s', (name, values) => {
    for (const value of values)
      expect(refusal(make({ [name]: value })), String(typeof value)).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('none at all, hostile ones, and two ways to defer', () => {
    for (const options of [undefined, null, 1, 'x']) {
      expect(refusal(() => new ReferenceExecutor(options as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(refusal(() => new ReferenceExecutor(throwingProxy({}) as never))).toBe('mine');
    expect(refusal(make({ latencyMs: 1, defer: () => {} }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it("a scheduler's options or its configuration fit as they are", () => {
    using scheduler = new Scheduler({
      numBlocks: 20,
      maxModelLen: 64,
      numSpeculativeTokens: 1,
      pipelineDepth: 3,
    });
    make(scheduler.config)();
    make({ numBlocks: 20 })();
  });
});

describe('misuse of a reference executor', () => {
  let executor: ReferenceExecutor;
  beforeEach(() => {
    executor = handExecutor();
  });
  afterEach(() => executor.dispose());

  /** Checks that the executor is as good as new. */
  function expectUnharmed(): void {
    const first = handMade([ADMITTED]);
    expect([...(executor.execute(first.plan, first.tables) as ExecutorResult).counts.slice(0, 1)]).toEqual([
      1,
    ]);
    const next = handMade([decode]);
    expect((executor.execute(next.plan, next.tables) as ExecutorResult).tokens[0]).toBe(5);
    expect(executor.numFaults).toBe(0);
  }

  const change = (changes: object) => {
    const { plan, tables } = handMade([ADMITTED]);
    return () => executor.execute({ ...plan, ...changes } as ExecutorPlan, tables);
  };

  it('what is no plan', () => {
    const { tables } = handMade([ADMITTED]);
    for (const plan of [undefined, null, 1, 'x', {}, []]) {
      expect(refusal(() => executor.execute(plan as never, tables))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(refusal(() => executor.execute(throwingProxy({}) as never, tables))).toBe('mine');
    expectUnharmed();
  });

  it('columns that are missing, too short, shared, detached, or of another type', () => {
    for (const name of ['numScheduledTokens', 'numBlocks', 'numNewBlocks', 'numDraftTokens', 'draftTokens']) {
      const columns = [
        undefined,
        null,
        [1],
        new Int32Array(name === 'draftTokens' ? 1 : 0),
        new Uint32Array(8),
        new Int32Array(new SharedArrayBuffer(32)),
        detachedOf(new Int32Array(8)),
      ];
      for (const column of columns)
        expect(refusal(change({ [name]: column })), name).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const name of ['kinds', 'maxOutputTokens', 'numInvalidDraftTokens']) {
      for (const column of [
        undefined,
        [1],
        new Uint8Array(0),
        new Int32Array(8),
        detachedOf(new Uint8Array(8)),
      ]) {
        expect(refusal(change({ [name]: column })), name).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
    }
    expectUnharmed();
  });

  it('numbers that make no sense', () => {
    const one = (value: number) => Int32Array.of(value);
    const bad: object[] = [
      ...NO_COUNTS.flatMap((value) => [{ numRequests: value }, { maxDrafts: value }]),
      { numRequests: 4 },
      { maxDrafts: 3 },
      { numScheduledTokens: one(0) },
      { numScheduledTokens: one(-1) },
      { numScheduledTokens: one(17) },
      { numBlocks: one(-1) },
      { numBlocks: one(7) },
      { numNewBlocks: one(3) },
      { numNewBlocks: one(-1) },
      { numDraftTokens: one(-1) },
      { numDraftTokens: one(3) },
      { numDraftTokens: one(1), draftTokens: Int32Array.of(-2, 0) },
      { numDraftTokens: one(1), draftTokens: Int32Array.of(2 ** 31 - 1, 0) },
      { numDraftTokens: one(2), numScheduledTokens: one(2) },
      { kinds: Uint8Array.of(3) },
    ];
    bad.forEach((changes, i) => {
      expect(refusal(change(changes)), `#${i}`).toBe('ERR_BLOCKSTEP_BAD_ARG');
    });
    expectUnharmed();
  });

  it('requests that are none', () => {
    const requests = (request: unknown) => change({ requests: [request] });
    const good = { id: 'a', handle: 1, numPromptTokens: 5 };
    for (const value of [undefined, null, 1, 'x', {}]) {
      expect(refusal(requests(value))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      expect(refusal(change({ requests: value }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const handle of [...NO_FINITE_NUMBERS, 0, -1, 0.5, 2 ** 53]) {
      expect(refusal(requests({ ...good, handle }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const numPromptTokens of [...NO_COUNTS, 0, 6]) {
      expect(refusal(requests({ ...good, numPromptTokens }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const value of [1, null, {}, Symbol('s')]) {
      expect(refusal(requests({ ...good, adapter: value }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      expect(refusal(requests({ ...good, cacheSalt: value }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    const { plan, tables } = handMade([ADMITTED, ADMITTED]);
    expect(refusal(() => executor.execute(plan, tables))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(refusal(requests(throwingProxy(good)))).toBe('mine');
    expectUnharmed();
  });

  it('tables that are none, or another size, or gone', () => {
    const { plan, tables } = handMade([ADMITTED]);
    const buffers = [
      undefined,
      null,
      1,
      {},
      new Int32Array(4),
      new ArrayBuffer(0),
      new ArrayBuffer(tables.buffer.byteLength + 4),
      new SharedArrayBuffer(tables.buffer.byteLength),
    ];
    for (const value of [undefined, null, 1, 'x']) {
      expect(refusal(() => executor.execute(plan, value as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const buffer of buffers) {
      expect(refusal(() => executor.execute(plan, { ...tables, buffer } as never))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    }
    for (const read of [-1, 0, 1.5, Number.NaN, 2 ** 40, '5', undefined, 4096]) {
      const lying = { ...tables, readTokens: () => read as number };
      expect(
        refusal(() => executor.execute(plan, lying)),
        String(read),
      ).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    const wrong = {
      ...tables,
      readTokens: (_: number, _from: number, out: Int32Array) => out.fill(-1, 0, 5) && 5,
    };
    expect(refusal(() => executor.execute(plan, wrong))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    const gone = handMade([ADMITTED]);
    structuredClone(gone.tables.buffer, { transfer: [gone.tables.buffer] });
    expect(refusal(() => executor.execute(gone.plan, gone.tables))).toBe('ERR_BLOCKSTEP_DETACHED');
    expectUnharmed();
  });

  it('tables full of anything are findings, and touch no memory of others', () => {
    using reporting = handExecutor({ onMismatch: 'report', pipelineDepth: 3 });
    const words = [0, 1, -1, 2 ** 31 - 1, -(2 ** 31), 0x7fff0000, 5];
    for (let i = 0; i < 400; i++) {
      const { plan, tables } = handMade([{ ...ADMITTED, handle: 1 + i * 2 ** 21 }], i);
      const all = new Int32Array(tables.buffer);
      for (let at = i % 7; at < all.length; at += 1 + (i % 5)) all[at] = words[(at + i) % words.length];
      reporting.execute(plan, tables);
      const next = handMade([{ ...decode, handle: 1 + i * 2 ** 21 }], i);
      new Int32Array(next.tables.buffer).fill(words[i % words.length]);
      reporting.execute(next.plan, next.tables);
    }
    expect(reporting.numFaults).toBeGreaterThan(800);
  });

  it('getters that dispose the executor', () => {
    const { plan, tables } = handMade([ADMITTED]);
    const treacherous = {
      ...plan,
      get requests() {
        executor.dispose();
        return plan.requests;
      },
    };
    expect(refusal(() => executor.execute(treacherous, tables))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });
});

describe('misuse of the native part', () => {
  const config: NativeReferenceConfig = {
    numBlocks: 10,
    blockSize: 4,
    maxTokens: 16,
    maxEntries: 3,
    maxBlocksPerRow: 6,
    maxDrafts: 2,
    pipelineDepth: 1,
    seed: 0,
    eosToken: 2 ** 31 - 1,
    wrongDrafts: 0,
    reportOnly: false,
  };
  const NONE = new Int32Array(0);
  let io: StepIo;
  let tables: ArrayBuffer;
  beforeEach(() => {
    io = makeStepIo(config);
    tables = new ArrayBuffer(tablesBytes(config));
  });

  it('every bad value of every field of the configuration', () => {
    for (const name of Object.keys(config)) {
      for (const value of [...NO_COUNTS, undefined]) {
        if (['seed', 'wrongDrafts'].includes(name) && (value === 2 ** 31 || value === 2 ** 32 - 1)) continue;
        if (name === 'reportOnly' && value === true) continue;
        const wrong = { ...config, [name]: value } as NativeReferenceConfig;
        expect(
          codeOf(() => loadAddon().createReference(wrong)),
          name,
        ).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
    }
    for (const value of [undefined, null, 1, 'x', () => 1]) {
      expect(codeOf(() => loadAddon().createReference(value as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(refusal(() => loadAddon().createReference(throwingProxy(config) as never))).toBe('mine');
    const huge = { ...config, numBlocks: 2 ** 24, blockSize: 2 ** 16 };
    expect(codeOf(() => loadAddon().createReference(huge))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
  });

  it('buffers and arrays that do not fit', () => {
    const native = loadAddon().createReference(config);
    const bad = [
      undefined,
      null,
      1,
      {},
      NONE,
      new ArrayBuffer(8),
      new SharedArrayBuffer(io.buffer.byteLength),
    ];
    for (const value of bad) {
      expect(codeOf(() => native.step(value as never, tables, NONE))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      expect(codeOf(() => native.step(io.buffer, value as never, NONE))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const value of [undefined, null, [], new Uint32Array(0), Int32Array.of(1)]) {
      expect(codeOf(() => native.step(io.buffer, tables, value as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const value of [
      null,
      [],
      new Uint32Array(1),
      Int32Array.of(0),
      Int32Array.of(-1),
      Int32Array.of(1, config.numBlocks),
    ]) {
      expect(codeOf(() => native.step(io.buffer, tables, NONE, value as never))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    }
    const gone = detachedOf(new Uint8Array(makeStepIo(config).buffer)).buffer as ArrayBuffer;
    expect(codeOf(() => native.step(gone, tables, NONE))).toBe('ERR_BLOCKSTEP_DETACHED');
    expect(codeOf(() => native.step(io.buffer, gone, NONE))).toBe('ERR_BLOCKSTEP_DETACHED');
    for (const count of [-1, 4, 2 ** 31 - 1]) {
      io.control[0] = count;
      expect(codeOf(() => native.step(io.buffer, tables, NONE))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    io.control[0] = 0;
    native.step(io.buffer, tables, NONE);
    native.dispose();
    native.dispose();
    expect(codeOf(() => native.step(io.buffer, tables, NONE))).toBe('ERR_BLOCKSTEP_DISPOSED');
    expect(codeOf(() => native.memory())).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('handles and tokens that are none', () => {
    const native = loadAddon().createReference(config);
    io.control[0] = 1;
    io.kinds[0] = 1;
    io.numScheduledTokens[0] = 2;
    io.numKnown[0] = 2;
    io.numPrompt[0] = 2;
    for (const handle of [0, -1, 0.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY]) {
      io.handles[0] = handle;
      expect(codeOf(() => native.step(io.buffer, tables, Int32Array.of(1, 2)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    io.handles[0] = 1;
    for (const tokens of [[1], [1, 2, 3], [-1, 2], [1, 2 ** 31 - 1]]) {
      expect(codeOf(() => native.step(io.buffer, tables, Int32Array.from(tokens)))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    }
    io.numScheduledTokens[0] = 9;
    io.numDraftTokens[0] = 3;
    expect(codeOf(() => native.step(io.buffer, tables, Int32Array.of(1, 2)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    io.numDraftTokens[0] = 1;
    for (const draft of [-3, 2 ** 31 - 1]) {
      io.draftTokens[0] = draft;
      expect(codeOf(() => native.step(io.buffer, tables, Int32Array.of(1, 2)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    io.numDraftTokens[0] = 0;
    io.kinds[0] = 0;
    expect(codeOf(() => native.step(io.buffer, tables, Int32Array.of(1, 2)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(native.memory().numSequences).toBe(0);
    native.dispose();
  });

  it('one buffer for both, where both have the same size', () => {
    const even = { ...config, maxEntries: 4, maxDrafts: 0, maxTokens: 4, maxBlocksPerRow: 428 };
    const both = makeStepIo(even).buffer;
    expect(both.byteLength).toBe(tablesBytes(even));
    const native = loadAddon().createReference(even);
    expect(codeOf(() => native.step(both, both, NONE))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    native.step(both, new ArrayBuffer(both.byteLength), NONE);
    native.dispose();
  });

  it('receivers of another kind', () => {
    const native = loadAddon().createReference(config);
    using core = new BenchCore(loadAddon());
    for (const name of ['step', 'memory', 'dispose'] as const) {
      for (const receiver of [
        undefined,
        null,
        {},
        core.native,
        Object.create(native),
        new Proxy(native, {}),
      ]) {
        expect(codeOf(() => Reflect.apply(native[name], receiver, []))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
      }
    }
    expect(codeOf(() => Reflect.apply(core.native.verify, native, []))).toBe('ERR_BLOCKSTEP_BAD_RECEIVER');
    const NativeClass = native.constructor as new () => unknown;
    expect(codeOf(() => new NativeClass())).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => Reflect.apply(NativeClass, undefined, []))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    native.dispose();
  });
});
