// An executor with groups, written from its documentation alone, makes the right texts; groups that
// an executor was not made for are refused.
import { describe, expect, it } from 'vitest';
import type { SchedulerConnector } from '../../../src/connector.js';
import { PlanViews } from '../../../src/engine/executor/plan-view.js';
import { Engine, type EngineOptions, ReferenceExecutor, Scheduler } from '../../../src/index.js';
import { codeOf, errorOf } from '../../misuse/bench.js';
import { FakeExecutor, Random } from '../../support/engine-bench.js';
import { wordy } from '../../support/unpaged-text.js';
import { type Group, HonestExecutor, nextToken } from './honest-executor.js';

const FULL = { type: 'full', blockSize: 4 } as const;
const SLIDING = { type: 'sliding', blockSize: 4, window: 9 } as const;
const POOL = { numBlocks: 40, blockSize: 4, maxModelLen: 64, maxNumBatchedTokens: 24, maxNumSeqs: 4 };
const CONFIGS: Record<string, { groups: readonly Group[]; numBlocks: number; zeroes?: true }> = {
  'a window': { groups: [FULL, SLIDING], numBlocks: 40 },
  'chunks, which begin inside blocks': {
    groups: [{ type: 'chunked', blockSize: 4, chunk: 10 }, FULL],
    numBlocks: 40,
  },
  'states where steps end': {
    groups: [FULL, { type: 'mamba', blockSize: 4, mode: 'align' }],
    numBlocks: 32,
    zeroes: true,
  },
  'a window beside states': {
    groups: [
      { type: 'sliding', blockSize: 4, window: 9 },
      { type: 'mamba', blockSize: 4, mode: 'align' },
    ],
    numBlocks: 20,
    zeroes: true,
  },
  'MLA beside states': {
    groups: [
      { type: 'mla', blockSize: 4 },
      { type: 'mamba', blockSize: 4, mode: 'all' },
    ],
    numBlocks: 48,
    zeroes: true,
  },
  'states at all ends of blocks': {
    groups: [{ type: 'mamba', blockSize: 4, mode: 'all' }, FULL],
    numBlocks: 48,
    zeroes: true,
  },
};

/** Forty clients over a small pool. @returns how many texts are not those of a computation without blocks */
async function wrongTexts(
  executor: HonestExecutor,
  groups: readonly Group[],
  options: Partial<EngineOptions> = {},
): Promise<number> {
  const sizes = { maxNumSeqs: 6, maxNumBatchedTokens: 24, maxModelLen: 64, blockSize: 4 };
  const engine = new Engine({
    hashSeed: 7,
    executor,
    ...sizes,
    numBlocks: executor.limits.numBlocks,
    ...options,
  });
  void engine.run();
  const random = new Random(3);
  const texts = Array.from({ length: 40 }, async () => {
    const prompt = wordy(6 + random.below(30), random.below(2));
    const maxTokens = 2 + random.below(20);
    const tokens: number[] = [];
    for await (const part of engine.submit({ prompt, maxTokens })) tokens.push(...part.tokens);
    const text = [...prompt];
    while (text.length < prompt.length + maxTokens) text.push(nextToken(groups, text));
    return tokens.join() === text.slice(prompt.length).join();
  });
  const wrong = (await Promise.all(texts)).filter((isRight) => !isRight).length;
  const { numPreemptions, prefixCacheHits } = engine.stats().scheduler;
  expect(numPreemptions).toBeGreaterThan(0);
  expect(prefixCacheHits).toBeGreaterThan(0);
  await engine.shutdown();
  return wrong;
}

describe.each(Object.entries(CONFIGS))('an executor with groups, by its documentation: %s', (_, config) => {
  const { groups, numBlocks, zeroes } = config;

  it('makes the texts that a computation without blocks makes', async () => {
    const executor = new HonestExecutor(numBlocks, groups);
    expect(await wrongTexts(executor, groups)).toBe(0);
    expect(executor.left.size).toBeGreaterThan(0);
    expect([...executor.left].filter((id) => !executor.dropped.has(id))).toEqual([]);
  });

  it.runIf(zeroes)('makes others where it does not zero the blocks that plans name', async () => {
    const executor = new HonestExecutor(numBlocks, groups, false);
    expect(await wrongTexts(executor, groups)).toBeGreaterThan(0);
  });
});

it('with zeroAttention off, windows and MLA beside states read what a state left', async () => {
  for (const name of ['a window beside states', 'MLA beside states']) {
    const { groups, numBlocks } = CONFIGS[name];
    const executor = new HonestExecutor(numBlocks, groups);
    const deviations = ['zeroAttention'];
    expect(await wrongTexts(executor, groups, { deviations })).toBeGreaterThan(0);
  }
});

describe('blocks that a load fills', () => {
  it.each([false, true])('are not zeroed by the executor: asynchronous %s', (async) => {
    const connector = {
      onNewRequest() {},
      getNumNewMatchedTokens: () => ({ numTokens: 8, async }),
      updateStateAfterAlloc() {},
      buildMetadata: () => ({}),
      updateConnectorOutput() {},
      requestFinished: () => ({ delayFree: false }),
    } as unknown as SchedulerConnector;
    using scheduler = new Scheduler({
      ...POOL,
      kvGroups: [FULL, { type: 'mamba', blockSize: 4, mode: 'all' }],
      connector,
      deadlines: false,
      // Else the plan itself does not name what an asynchronous load fills.
      deviations: ['zeroUnloaded'],
    });
    scheduler.add({ id: 'a', prompt: wordy(14, 1), maxTokens: 1 });
    const plan = scheduler.schedule();
    const view = new PlanViews().of(plan);
    const loaded = async ? plan.loadedBlocks[0] : plan.syncLoads[0].blocks;
    const row = scheduler.core.blocks(scheduler.get('a')?.slot as number, 0);
    expect(plan.blocksToZero).toEqual(row);
    expect([...loaded].slice(0, 2)).toEqual([...row.subarray(0, 2)]);
    expect(view.blocksToZero).toEqual(async ? null : row.subarray(2));
  });
});

function make(kvGroups: unknown, options: Partial<EngineOptions> = {}): Engine {
  const executor = Object.assign(new FakeExecutor(), { limits: { kvGroups } }) as never;
  return new Engine({ ...POOL, executor, ...options });
}

function messageOf(act: () => unknown): string {
  expect(codeOf(act)).toBe('ERR_BLOCKSTEP_BAD_ARG');
  return (errorOf(act) as Error).message;
}

describe('the groups that an executor was made for', () => {
  it('are those of an engine that was given none', () => {
    using engine = make([{ type: 'full' }, { type: 'sliding', window: 9 }]);
    expect(engine.scheduler.config.kvGroups?.list.map(({ type, blockSize }) => [type, blockSize])).toEqual([
      ['full', 4],
      ['sliding', 4],
    ]);
    using plain = make(null);
    expect(plain.scheduler.config.kvGroups).toBe(null);
  });

  it('may be written in another way, and with other flags of a drafter', () => {
    using engine = make([FULL, SLIDING], {
      kvGroups: [
        { type: 'full', eagle: true },
        { type: 'sliding', window: 9 },
      ],
    });
    expect(engine.scheduler.config.kvGroups?.list.length).toBe(2);
    make([{ type: 'full' }]).dispose();
    make(null, { kvGroups: [{ type: 'mla' }] }).dispose();
  });

  it('are refused where the engine has others, with both lists', () => {
    const ours = 'full (blockSize 4) + sliding (blockSize 4, window 9), which the executor was made for';
    for (const [kvGroups, text] of [
      [[SLIDING, FULL], 'sliding (blockSize 4, window 9) + full (blockSize 4)'],
      [[FULL, { ...SLIDING, window: 8 }], 'full (blockSize 4) + sliding (blockSize 4, window 8)'],
      [[FULL], 'none'],
      [null, 'none'],
    ] as const)
      expect(messageOf(() => make([FULL, SLIDING], { kvGroups }))).toBe(
        `kvGroups must be ${ours}, got ${text}`,
      );
    const states = { type: 'mamba', mode: 'all' } as const;
    expect(messageOf(() => make(null, { kvGroups: [FULL, states] }))).toBe(
      'kvGroups must be none, which the executor was made for, got full (blockSize 4) + mamba (mode all, blockSize 4)',
    );
  });

  it.each([7, 'full', {}, [7], [null]])('are refused if they are no list of objects: %o', (bad) => {
    expect(messageOf(() => make(bad))).toContain(
      'executor.limits.kvGroups must be a list of groups, or null',
    );
  });

  it('are refused if no group can be like this', () => {
    expect(messageOf(() => make([{ type: 'half' }]))).toContain('kvGroups[0].type');
    expect(messageOf(() => make([{ type: 'sliding' }], { kvGroups: [FULL, SLIDING] }))).toContain('window');
  });

  it('are declared by the reference executor', () => {
    using executor = new ReferenceExecutor<'cpu'>({ ...POOL, kvGroups: [FULL, SLIDING] });
    expect(() => new Engine({ executor, kvGroups: [FULL], numBlocks: 40 })).toThrow('got none');
    using engine = new Engine({ executor, numBlocks: 40 });
    expect(engine.scheduler.config.kvGroups?.list.length).toBe(2);
    using plain = new ReferenceExecutor<'cpu'>(POOL);
    expect(() => new Engine({ executor: plain, kvGroups: [FULL, SLIDING], numBlocks: 40 })).toThrow(
      'must be none',
    );
  });
});
