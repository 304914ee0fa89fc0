// Bad arguments, signals and options are refused and change nothing; a wrong receiver.
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { type BlockstepError, Engine, type EngineOptions, type RequestStream } from '../../../src/index.js';
import {
  foreignRealm,
  hostile,
  MINE,
  NO_BOOLEANS,
  NO_COUNTS,
  NO_INTEGERS,
  NO_STRINGS,
  NO_TOKEN_IDS,
  throwingProxy,
} from '../../misuse/bad-values.js';
import { codeOf, errorOf, expectReadable, mirror, snapshot } from '../../misuse/bench.js';
import { describeValue } from '../../misuse/misuse.js';
import { answerOf, EngineBench, leftovers, prompt } from '../../support/engine-bench.js';
import { schedulerOf } from '../../support/scheduler-of.js';

/** a and b run, c waits, d has finished and its blocks are held; at depth 2 a step is in flight. */
function busyBench(options: Partial<EngineOptions> = {}): EngineBench & { streams: RequestStream[] } {
  const bench = new EngineBench({ pipelineDepth: 2, maxNumSeqs: 3, ...options }, true);
  const streams = ['a', 'b', 'd', 'c'].map((id, i) =>
    bench.submit({ id, prompt: prompt(6, i), maxTokens: id === 'd' ? 1 : 9 }),
  );
  bench.engine.hold(streams[2].handle, 'store', 'job');
  bench.engine.step();
  return Object.assign(bench, { streams });
}

interface Misuse {
  name: string;
  call: (bench: ReturnType<typeof busyBench>) => unknown;
  /** Errors of the caller's own callbacks arrive as they are. */
  refusal: 'ERR_BLOCKSTEP_BAD_ARG' | typeof MINE;
}

function each(
  name: string,
  values: readonly unknown[],
  call: (bench: ReturnType<typeof busyBench>, value: never) => unknown,
  refusal: Misuse['refusal'] = 'ERR_BLOCKSTEP_BAD_ARG',
): Misuse[] {
  return values.map((value, i) => ({
    name: `${name} ${i}: ${describeValue(value)}`,
    call: (bench) => call(bench, value as never),
    refusal,
  }));
}

const NO_OBJECTS = [null, true, false, 1, 'x', '', 1n, Symbol('s'), () => ({})];
const NO_SIGNALS: unknown[] = [
  ...NO_OBJECTS,
  {},
  { aborted: true, reason: MINE },
  new EventTarget(),
  new AbortController(),
  Object.create(AbortSignal.prototype),
  throwingProxy({}),
  foreignRealm('({ aborted: false, addEventListener() {} })'),
];
const REQUEST = { id: 'new', prompt: prompt(4), maxTokens: 2 };
const NO_KEYS = [...NO_INTEGERS, -1, undefined].filter((value) => {
  try {
    return typeof value !== 'string' && !(typeof value === 'object' && Symbol.iterator in (value ?? {}));
  } catch {
    return false;
  }
});

function* throwsAfter(...ids: string[]): Generator<string> {
  yield* ids;
  throw MINE;
}

const MISUSES: Record<string, Misuse[]> = {
  submit: [
    ...each('request', [...NO_OBJECTS, undefined], ({ engine }, value) => engine.submit(value)),
    ...each('request', [throwingProxy({})], ({ engine }, value) => engine.submit(value), MINE),
    ...each('options', NO_OBJECTS, ({ engine }, value) => engine.submit(REQUEST, value)),
    ...each('options', [throwingProxy({})], ({ engine }, value) => engine.submit(REQUEST, value), MINE),
    ...each('signal', NO_SIGNALS, ({ engine }, signal) => engine.submit(REQUEST, { signal })),
    ...each(
      'id',
      NO_STRINGS.filter((id) => id !== null),
      ({ engine }, id) => engine.submit({ ...REQUEST, id }),
    ),
    ...each(
      'id with an aborted signal',
      NO_STRINGS.filter((id) => id !== null),
      ({ engine }, id) => engine.submit({ ...REQUEST, id }, { signal: AbortSignal.abort() }),
    ),
    ...NO_TOKEN_IDS.flatMap((make, i) =>
      each(`prompt ${i}`, [undefined], ({ engine }) =>
        engine.submit({ ...REQUEST, prompt: make() as never }),
      ),
    ),
    ...each('maxTokens', [...NO_COUNTS, 0, undefined], ({ engine }, maxTokens) =>
      engine.submit({ ...REQUEST, maxTokens }),
    ),
    ...each('ignoreEos', NO_BOOLEANS, ({ engine }, ignoreEos) => engine.submit({ ...REQUEST, ignoreEos })),
    ...Object.keys({
      ...REQUEST,
      minTokens: 1,
      eosTokenId: 1,
      stopTokenIds: 1,
      priority: 1,
      cacheSalt: 1,
      params: 1,
    }).flatMap((field) =>
      each(
        `getter of ${field}`,
        [undefined],
        ({ engine }) =>
          engine.submit(Object.defineProperty({ ...REQUEST }, field, { get: hostile, enumerable: true })),
        MINE,
      ),
    ),
  ],
  abort: [
    ...each('abort', NO_KEYS, ({ engine }, value) => engine.abort(value)),
    ...each('abort', [['a', 1.5], ['a', null], [['a']], new Map([['a', 1]])], ({ engine }, value) =>
      engine.abort(value),
    ),
    ...each(
      'abort',
      [throwingProxy({}), { [Symbol.iterator]: hostile }],
      ({ engine }, value) => engine.abort(value),
      MINE,
    ),
    ...each(
      'abort',
      [1, 2, 3],
      ({ engine }, n) => engine.abort(throwsAfter(...['a', 'b', 'c'].slice(0, n))),
      MINE,
    ),
  ],
  shutdown: [
    ...each('shutdown', NO_OBJECTS, ({ engine }, value) => engine.shutdown(value)),
    ...each('drainMs', NO_COUNTS, ({ engine }, drainMs) => engine.shutdown({ drainMs })),
    ...each(
      'shutdown',
      [throwingProxy({}), Object.defineProperty({}, 'drainMs', { get: hostile })],
      ({ engine }, value) => engine.shutdown(value),
      MINE,
    ),
  ],
  pause: each('pause', [undefined, null, 0, 'none', 'NEW', '', {}, 1n, Symbol('s')], ({ engine }, mode) =>
    engine.pause(mode),
  ),
  resetPrefixCache: [
    ...each('reset', NO_OBJECTS, ({ engine }, value) => engine.resetPrefixCache(value)),
    ...each('resetRunning', NO_BOOLEANS, ({ engine }, resetRunning) =>
      engine.resetPrefixCache({ resetRunning }),
    ),
  ],
  hold: [
    ...each('handle', [...NO_INTEGERS, -1, undefined, 'a'], ({ engine }, value) =>
      engine.hold(value, 'load', 'x'),
    ),
    ...each('kind', [...NO_STRINGS, undefined, 'LOAD'], ({ engine, streams }, kind) =>
      engine.hold(streams[0].handle, kind, 'x'),
    ),
    ...each('owner', [...NO_STRINGS, undefined], ({ engine, streams }, owner) =>
      engine.hold(streams[0].handle, 'load', owner),
    ),
  ],
  complete: [
    ...each('handle', [...NO_INTEGERS, -1, undefined, 'a'], ({ engine }, value) =>
      engine.complete(value, 'load', 'x'),
    ),
    ...each('kind', [...NO_STRINGS, undefined], ({ engine, streams }, kind) =>
      engine.complete(streams[0].handle, kind, 'x'),
    ),
    ...each('owner', [...NO_STRINGS, undefined], ({ engine, streams }, owner) =>
      engine.complete(streams[0].handle, 'load', owner),
    ),
  ],
  explain: each(
    'explain',
    [...NO_INTEGERS, -1, undefined].filter((value) => typeof value !== 'string'),
    ({ engine }, value) => engine.explain(value),
  ),
};

/** Everything that a refused call may not change. */
function all(bench: ReturnType<typeof busyBench>): unknown {
  const { engine } = bench;
  const { scheduler: _, ...stats } = engine.stats();
  const ends = bench.streams.map(({ ended, numOutputTokens }) => [ended, numOutputTokens]);
  return [
    snapshot(schedulerOf(engine)),
    stats,
    engine.health(),
    ends,
    engine.isRunning,
    bench.executor.seen.length,
  ];
}

describe('bad arguments', () => {
  it.each(Object.keys(MISUSES))('of %s are refused, and nothing is changed', (name) => {
    const bench = busyBench();
    const failures: string[] = [];
    for (const { name: misuse, call, refusal } of MISUSES[name]) {
      const before = all(bench);
      try {
        const error = errorOf(() => call(bench));
        if (refusal === MINE) expect(error).toBe(MINE);
        else {
          expect(codeOf(() => call(bench))).toBe(refusal);
          expectReadable(error);
        }
        expect(all(bench)).toEqual(before);
      } catch (error) {
        failures.push(
          `${misuse}: ${String((error as Error).message)
            .split('\n')[0]
            .slice(0, 200)}`,
        );
      }
    }
    expect(failures).toEqual([]);
    bench.engine.dispose();
  });

  it('are followed by ordinary steps', async () => {
    const bench = busyBench();
    for (const { call } of Object.values(MISUSES).flat()) {
      try {
        call(bench);
      } catch {
        // Seen above.
      }
    }
    bench.engine.complete(bench.streams[2].handle, 'store', 'job');
    await bench.finish();
    for (const stream of bench.streams) expect((await stream.result()).finishReason).toBe('length');
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('a signal that is none after all', () => {
  it('and refuses to be listened to leaves no request behind', () => {
    const bench = new EngineBench();
    const signal = new Proxy(new AbortController().signal, {
      get(target, key) {
        if (key === 'addEventListener') throw MINE;
        return Reflect.get(target, key) as unknown;
      },
    });
    expect(errorOf(() => bench.submit({ id: 'a' }, { signal }))).toBe(MINE);
    expect(bench.steps()).toBe('idle');
    expect(bench.executor.seen).toEqual([]);
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

const GOOD: EngineOptions = { numBlocks: 9, executor: { execute: answerOf } };
const NO_EXECUTORS: unknown[] = [
  undefined,
  ...NO_OBJECTS,
  {},
  [],
  { execute: null },
  { execute: 'execute' },
  { execute: { call() {} } },
  { execute: answerOf, dispose: 1 },
  { execute: answerOf, dispose: null },
  { execute: answerOf, usesTables: 1 },
  { execute: answerOf, usesTables: null },
  { execute: answerOf, device: 'gpu' },
  { execute: answerOf, device: 0 },
  { execute: answerOf, device: 'cuda' },
  { execute: answerOf, device: 'cuda', stream: null },
  { execute: answerOf, device: 'cuda', stream: 7 },
  { execute: answerOf, device: 'cuda', stream: -1n },
  { execute: answerOf, device: 'cpu', stream: 7n },
];
const OPTIONS: Record<string, readonly unknown[]> = {
  executor: NO_EXECUTORS,
  executorTimeoutMs: NO_COUNTS,
  stallSteps: [...NO_COUNTS, 0],
  maxQueuedRequests: [...NO_COUNTS.filter((value) => value !== Number.POSITIVE_INFINITY), 0],
  maxQueuedTokens: [...NO_COUNTS.filter((value) => value !== Number.POSITIVE_INFINITY), 0],
  numBlocks: [undefined, ...NO_COUNTS, 0, 1],
  pipelineDepth: [...NO_COUNTS, 0, 4],
};

describe('bad options', () => {
  it.each(Object.keys(OPTIONS))('%s is refused', (name) => {
    const failures: string[] = [];
    for (const value of OPTIONS[name]) {
      try {
        const error = errorOf(() => new Engine({ ...GOOD, [name]: value }));
        expect((error as BlockstepError).code).toBe('ERR_BLOCKSTEP_BAD_ARG');
        expectReadable(error);
      } catch (error) {
        failures.push(`${describeValue(value)}: ${String(error)}`);
      }
    }
    expect(failures).toEqual([]);
  });

  it('that are no object are refused, and what their getters throw arrives', () => {
    for (const value of [undefined, ...NO_OBJECTS]) {
      expect(codeOf(() => new Engine(value as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(errorOf(() => new Engine(throwingProxy({}) as never))).toBe(MINE);
    expect(errorOf(() => new Engine({ ...GOOD, executor: throwingProxy({}) as never }))).toBe(MINE);
    for (const name of ['execute', 'dispose', 'usesTables', 'device', 'stream']) {
      const executor = Object.defineProperty({ execute: answerOf }, name, { get: hostile });
      expect(errorOf(() => new Engine({ ...GOOD, executor }))).toBe(MINE);
    }
  });

  it('are read once, also those of the executor, which is called on itself', () => {
    const reads: string[] = [];
    const counting = <T extends object>(whose: string, target: T): T =>
      new Proxy(target, {
        get(object, key) {
          reads.push(`${whose} ${String(key)}`);
          return Reflect.get(object, key) as unknown;
        },
      });
    let receiver: unknown;
    const executor = counting('executor', {
      usesTables: false,
      execute(plan: Parameters<typeof answerOf>[0]) {
        receiver = this;
        return answerOf(plan);
      },
      dispose() {
        receiver = this;
      },
    });
    const engine = new Engine(counting('options', { ...GOOD, executor }));
    expect(reads.length).toBe(new Set(reads).size);
    engine.submit({ prompt: prompt(4), maxTokens: 1 });
    reads.length = 0;
    engine.step();
    expect(receiver).toBe(executor);
    receiver = null;
    engine.dispose();
    expect(receiver).toBe(executor);
    expect(reads).toEqual([]);
  });

  it('without new make nothing', () => {
    expect(() => (Engine as unknown as (options: EngineOptions) => void)(GOOD)).toThrow(TypeError);
  });
});

describe('a wrong receiver', () => {
  const methods = Object.getOwnPropertyNames(Engine.prototype).filter((name) => name !== 'constructor');
  const symbols = [Symbol.dispose, Symbol.asyncDispose];

  it.each([...methods, ...symbols])('is refused by %s of the engine', (name) => {
    const bench = busyBench();
    const before = mirror(schedulerOf(bench.engine));
    const descriptor = Object.getOwnPropertyDescriptor(Engine.prototype, name)!;
    const method = (descriptor.value ?? descriptor.get) as (...args: unknown[]) => unknown;
    const receivers = [
      {},
      null,
      undefined,
      1,
      Object.create(bench.engine),
      new Proxy(bench.engine, {}),
      Engine.prototype,
    ];
    for (const receiver of receivers) {
      expect(errorOf(() => Reflect.apply(method, receiver, ['a', {}]))).toBeInstanceOf(TypeError);
    }
    expect(mirror(schedulerOf(bench.engine))).toEqual(before);
    bench.engine.dispose();
  });

  it('is refused by every method of a stream and its iterator', () => {
    const bench = busyBench();
    const [stream] = bench.streams;
    for (const object of [stream, stream[Symbol.asyncIterator]()]) {
      const prototype = Object.getPrototypeOf(object) as object;
      for (const name of Reflect.ownKeys(prototype)) {
        if (name === 'constructor') continue;
        const descriptor = Object.getOwnPropertyDescriptor(prototype, name)!;
        const method = (descriptor.value ?? descriptor.get) as () => unknown;
        if (name === Symbol.asyncIterator && object !== stream) continue;
        // A program that prints an object must not fail because of it.
        if (name === inspect.custom) continue;
        for (const receiver of [{}, null, Object.create(object), new Proxy(object, {}), prototype]) {
          expect(
            errorOf(() => Reflect.apply(method, receiver, [])),
            String(name),
          ).toBeInstanceOf(TypeError);
        }
      }
    }
    expect(stream.ended).toBe(false);
    bench.engine.dispose();
  });
});
