import { describe, expect, it } from 'vitest';
import {
  Engine,
  type EngineOptions,
  type Executor,
  type ExecutorLimits,
  ReferenceExecutor,
} from '../../../src/index.js';
import { hostile, MINE, NO_BOOLEANS, NO_COUNTS, throwingProxy } from '../../misuse/bad-values.js';
import { codeOf, errorOf, expectReadable } from '../../misuse/bench.js';
import { describeValue } from '../../misuse/misuse.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { FakeExecutor, prompt } from '../../support/engine-bench.js';

const COUNTS = ['maxNumSeqs', 'maxNumBatchedTokens', 'maxModelLen'] as const;
const OTHERS = [
  'numBlocks',
  'blockSize',
  'kvGroups',
  'fixedShape',
  'pipelineDepth',
  'numSpeculativeTokens',
  'canRollBack',
];
const LIMITS = { maxNumSeqs: 4, maxNumBatchedTokens: 100, maxModelLen: 48 };

function make(limits: unknown, options: Partial<EngineOptions> = {}, also: object = {}): Engine {
  const executor = Object.assign(new FakeExecutor(), { limits }, also) as Executor;
  return new Engine({ numBlocks: 33, blockSize: 4, executor, ...options });
}

function messageOf(act: () => unknown): string {
  expect(codeOf(act)).toBe('ERR_BLOCKSTEP_BAD_ARG');
  const error = errorOf(act);
  expectReadable(error);
  return (error as Error).message;
}

// Pinned by: `parseLimits`, `limited` (executor-limits.ts), `submit` (submit.ts).
describe('the limits of an executor', () => {
  it('are those of an engine that was given no options, where they are below the defaults', () => {
    expect(make(LIMITS).scheduler.config).toMatchObject(LIMITS);
    const high = { maxNumSeqs: 1000, maxNumBatchedTokens: 1e6, maxModelLen: 1e6 };
    expect(make(high).scheduler.config).toMatchObject({
      maxNumSeqs: 256,
      maxNumBatchedTokens: 8192,
      maxModelLen: 8192,
    });
    expect(make({}).scheduler.config).toMatchObject({ maxNumSeqs: 256, enablePrefixCaching: true });
    expect(make({ maxNumSeqs: undefined }).scheduler.config.maxNumSeqs).toBe(256);
  });

  it.each(COUNTS)('%s: up to it is fine, one more is refused with name, value and limit', (name) => {
    const limit = LIMITS[name];
    expect(make(LIMITS, { [name]: limit }).scheduler.config[name]).toBe(limit);
    expect(make(LIMITS, { [name]: limit - 1 }).scheduler.config[name]).toBe(limit - 1);
    const message = messageOf(() => make(LIMITS, { [name]: limit + 1 }));
    expect(message).toBe(`${name} must be at most ${limit}, the executor's limit, got ${limit + 1}`);
  });

  it.each(['pipelineDepth', 'numSpeculativeTokens'] as const)('%s is a limit too', (name) => {
    const limits = { pipelineDepth: 2, numSpeculativeTokens: 3 };
    expect(make(limits).scheduler.config).toMatchObject({ pipelineDepth: 1, numSpeculativeTokens: 0 });
    expect(make(limits, { [name]: limits[name] }).scheduler.config[name]).toBe(limits[name]);
    expect(messageOf(() => make(limits, { [name]: limits[name] + 1 }))).toBe(
      `${name} must be at most ${limits[name]}, the executor's limit, got ${limits[name] + 1}`,
    );
    expect(make({ numSpeculativeTokens: 0 }).scheduler.config.numSpeculativeTokens).toBe(0);
  });

  it.each(['numBlocks', 'blockSize'] as const)(
    '%s is what the executor was made for, no more and no less',
    (name) => {
      const made = { numBlocks: 33, blockSize: 4 };
      expect(make(made).scheduler.config).toMatchObject(made);
      for (const given of [made[name] - 1, made[name] + 1])
        expect(messageOf(() => make(made, { [name]: given }))).toBe(
          `${name} must be ${made[name]}, which the executor was made for, got ${given}`,
        );
    },
  );

  it('the pool is that of the executor where the options do not say it', () => {
    const executor = Object.assign(new FakeExecutor(), {
      limits: { numBlocks: 21, blockSize: 32 },
    }) as Executor;
    const { config } = new Engine({ executor } as EngineOptions).scheduler;
    expect([config.numBlocks, config.blockSize]).toEqual([21, 32]);
  });

  it.each(COUNTS)('with fixedShape %s is what the executor was made for too', (name) => {
    const fixed = { ...LIMITS, fixedShape: true };
    expect(make(fixed).scheduler.config).toMatchObject(LIMITS);
    // Above the defaults, and small enough to be mirrored on any GPU.
    const high = { maxNumSeqs: 300, maxNumBatchedTokens: 1e4, maxModelLen: 1e4, fixedShape: true };
    expect(make(high).scheduler.config[name]).toBe(high[name]);
    for (const given of [LIMITS[name] - 1, LIMITS[name] + 1])
      expect(messageOf(() => make(fixed, { [name]: given }))).toBe(
        `${name} must be ${LIMITS[name]}, which the executor was made for, got ${given}`,
      );
    expect(make({ ...LIMITS, fixedShape: false }, { [name]: LIMITS[name] - 1 }).scheduler.config[name]).toBe(
      LIMITS[name] - 1,
    );
  });

  it.each<[string, Partial<EngineOptions>]>([
    ['numSpeculativeTokens', { numSpeculativeTokens: 2 }],
    ['enablePrefixCaching', { enablePrefixCaching: true }],
    ['connector', { connector: new ScriptedConnector() }],
  ])('canRollBack false refuses %s', (name, options) => {
    expect(messageOf(() => make({ canRollBack: false }, options))).toMatch(
      new RegExp(`^${name} .*the executor cannot roll back`),
    );
    make({ canRollBack: true }, options).dispose();
  });

  it('canRollBack false: no prefix is cached, no request is a session, and a text is computed', async () => {
    const engine = make({ canRollBack: false }, { maxModelLen: 64, maxNumBatchedTokens: 64 });
    expect(engine.scheduler.config).toMatchObject({ enablePrefixCaching: false, numSpeculativeTokens: 0 });
    const request = { id: 'a', prompt: prompt(6), maxTokens: 2 };
    expect(messageOf(() => engine.submit({ ...request, resumable: true }))).toMatch(
      /^resumable .*the executor cannot roll back/,
    );
    const stream = engine.submit({ ...request, resumable: false });
    for (let i = 0; i < 6; i++) engine.step();
    expect((await stream.result()).tokens).toEqual(Int32Array.of(600, 700));
    expect(engine.scheduler.core.published().length).toBe(0);
  });

  it.each(COUNTS)('%s: what is no count is refused', (name) => {
    for (const value of [...NO_COUNTS, 0, -0])
      expect(
        messageOf(() => make({ [name]: value })),
        describeValue(value),
      ).toContain(`executor.limits.${name}`);
  });

  it('refuses what is none, and names that it does not know', () => {
    for (const limits of [null, 0, 1, 'x', true, 1n, Symbol('s'), () => ({})])
      expect(
        messageOf(() => make(limits)),
        describeValue(limits),
      ).toContain('executor.limits');
    expect(messageOf(() => make({ maxSeqs: 1 }))).toMatch(/maxSeqs.*maxNumSeqs|maxNumSeqs.*maxSeqs/);
    for (const value of NO_BOOLEANS)
      expect(
        messageOf(() => make({ canRollBack: value })),
        describeValue(value),
      ).toContain('canRollBack');
    for (const value of NO_BOOLEANS)
      expect(messageOf(() => make({ fixedShape: value }))).toContain('fixedShape');
    for (const name of ['numBlocks', 'blockSize', 'pipelineDepth', 'numSpeculativeTokens'])
      for (const value of NO_COUNTS)
        expect(
          messageOf(() => make({ [name]: value })),
          describeValue(value),
        ).toContain(`executor.limits.${name}`);
    expect(errorOf(() => make(throwingProxy({})))).toBe(MINE);
    expect(errorOf(() => make(Object.defineProperty({}, 'maxModelLen', { get: hostile })))).toBe(MINE);
  });

  it('are read once, and so are the options that they limit', () => {
    const reads: string[] = [];
    const counting = (values: Record<string, unknown>, from: string): object =>
      new Proxy(values, {
        get: (target, name, receiver) => {
          reads.push(`${from}.${String(name)}`);
          return Reflect.get(target, name, receiver) as unknown;
        },
      });
    make(counting({ ...LIMITS, canRollBack: true } satisfies ExecutorLimits, 'limits'));
    expect(reads.sort()).toEqual([...COUNTS, ...OTHERS].map((name) => `limits.${name}`).sort());
    for (const name of [...COUNTS, 'numSpeculativeTokens', 'enablePrefixCaching', 'connector']) {
      let times = 0;
      const values: Record<string, [unknown, unknown]> = {
        enablePrefixCaching: [false, true],
        connector: [null, new ScriptedConnector()],
        numSpeculativeTokens: [0, 3],
      };
      const [least, most] = values[name] ?? [4, 60];
      const options = Object.defineProperty({}, name, {
        get: () => (times++ === 0 ? least : most),
        enumerable: true,
      });
      const executor = Object.assign(new FakeExecutor(), { limits: { ...LIMITS, canRollBack: false } });
      const given = Object.defineProperties(
        { numBlocks: 33, blockSize: 4, executor },
        Object.getOwnPropertyDescriptors(options),
      );
      const { config } = new Engine(given as EngineOptions).scheduler;
      expect(config[name as 'maxNumSeqs'] ?? null, name).toBe(least);
    }
  });

  it('leave an option of a wrong type to be refused as ever', () => {
    for (const name of COUNTS)
      for (const value of NO_COUNTS)
        expect(
          messageOf(() => make({ ...LIMITS, canRollBack: false }, { [name]: value as never })),
          describeValue(value),
        ).toContain(name);
    for (const value of NO_COUNTS)
      expect(
        messageOf(() => make({ canRollBack: false }, { numSpeculativeTokens: value as never })),
      ).toContain('numSpec');
  });

  it('the time of an executor is 10 minutes unless it is given', () => {
    let time = 0;
    const executor = new FakeExecutor(true);
    const engine = new Engine({ numBlocks: 33, blockSize: 4, executor, now: () => time });
    engine
      .submit({ prompt: prompt(6), maxTokens: 2 })
      .result()
      .catch(() => {});
    engine.step();
    time = 599_999;
    engine.step();
    time = 600_000;
    expect(codeOf(() => engine.step())).toBe('ERR_BLOCKSTEP_EXECUTOR_HUNG');
  });

  it.each([
    ['requestsFinished', [null, 1, 'x', {}, true]],
    ['watchesBlocks', NO_BOOLEANS],
  ] as const)('an executor whose %s is none is refused', (name, values) => {
    for (const value of values)
      expect(
        messageOf(() => make({}, {}, { [name]: value })),
        describeValue(value),
      ).toContain(`executor.${name}`);
  });
});

// Pinned by: `limits` of the reference executor (reference/options.ts).
describe('a reference executor', () => {
  const sizes = { numBlocks: 33, blockSize: 4, maxNumSeqs: 4, maxNumBatchedTokens: 32, maxModelLen: 64 };
  const made = { ...sizes, pipelineDepth: 2 as const, numSpeculativeTokens: 2 };
  const engineOf = (given: object): Engine => {
    const executor = new ReferenceExecutor(made);
    try {
      return new Engine({ ...made, ...given, executor });
    } catch (error) {
      executor.dispose();
      throw error;
    }
  };

  it.each(Object.keys(sizes) as (keyof typeof sizes)[])(
    'of another %s than its engine is refused',
    (name) => {
      for (const given of [made[name] - 1, made[name] + 1])
        expect(messageOf(() => engineOf({ [name]: given }))).toBe(
          `${name} must be ${made[name]}, which the executor was made for, got ${given}`,
        );
    },
  );

  it('of fewer steps in flight, or fewer drafts, than its engine is refused; of more it computes', async () => {
    expect(messageOf(() => engineOf({ pipelineDepth: 3 }))).toContain('pipelineDepth must be at most 2');
    expect(messageOf(() => engineOf({ numSpeculativeTokens: 3 }))).toContain('must be at most 2');
    for (const fewer of [
      {},
      { pipelineDepth: 1 },
      { numSpeculativeTokens: 0 },
      { numSpeculativeTokens: 1 },
    ]) {
      const engine = engineOf(fewer);
      const result = engine.submit({ prompt: prompt(9), maxTokens: 12 }).result();
      while (engine.hasWork()) engine.step();
      expect((await result).tokens.length).toBe(12);
      expect(engine.stats()).toMatchObject({ wrongAnswers: 0, failedSteps: 0 });
      engine.dispose();
    }
  });
});
