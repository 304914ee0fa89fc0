// Random lives give the texts of an unlimited pool, and leave nothing behind.
import { describe, expect, it } from 'vitest';
import { share, thinned } from '../../support/share.js';
import { type Life, live } from './life.js';
import { SIZES } from './support.js';

const POOL = SIZES.numBlocks - 1;
/** Blocks of a prompt and its text, about. */
const BLOCKS_EACH = 7;

const PLAIN: Omit<Life, 'seed'> = {
  engine: {},
  numRanks: 1,
  hostBlocks: 1000,
  realLanes: false,
  numRequests: 60,
  numPrompts: 12,
  aborts: 0,
  sessions: 0,
  failures: 0,
};

/** Lives, and checks what must be so in every life. @returns what the offload counted */
async function check(life: Life) {
  const { bench, ends, expected } = await live(life);
  try {
    expect(bench.executor.faults).toEqual([]);
    for (const [i, { tokens, finishReason }] of ends.entries()) {
      const isWhole = finishReason === 'length';
      expect(tokens).toEqual(isWhole ? expected[i] : expected[i].slice(0, tokens.length));
      if (life.aborts === 0 && life.failures === 0) expect(finishReason).toBe('length');
    }
    expect(bench.leftovers()).toEqual([]);
    expect(bench.engine.stats().scheduler.anomalies).toEqual({});
    const stats = bench.connector.stats();
    expect(stats.anomalies).toEqual({});
    expect(bench.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({
      ok: true,
      connector: true,
    });
    expect(bench.connector.stats().host).toMatchObject({ blocks: 0, places: { free: life.hostBlocks } });
    return { ...stats, scheduler: bench.engine.stats().scheduler };
  } finally {
    bench.dispose();
  }
}

describe.each(thinned([1, 2, 3] as const, 1, 1))('an offload at depth %i', (pipelineDepth) => {
  it.each([0.5, 1, 3, 10])(
    'gives the texts of an unlimited pool with a working set of %f pools',
    async (share) => {
      const numPrompts = Math.max(1, Math.round((share * POOL) / BLOCKS_EACH));
      const numRequests = Math.max(60, 2 * numPrompts);
      const life = { ...PLAIN, seed: 5, numRequests, numPrompts, engine: { pipelineDepth } };
      const { host, lookups } = await check(life);
      expect(lookups).toBeGreaterThanOrEqual(numRequests);
      // Blocks that do not fit into the pool are found in the tier, and each content is stored
      // once.
      if (share >= 1) expect(host.hitTokens).toBeGreaterThan(100);
      expect(host.stores.blocks).toBe(host.blocks);
      expect(host.evictions).toBe(0);
    },
  );

  it.each([1, 2])('and with %i ranks, whatever else happens', async (numRanks) => {
    for (let seed = 1; seed <= share(3, 6); seed++) {
      const engine = {
        pipelineDepth,
        numSpeculativeTokens: seed % 2 === 0 ? 3 : 0,
        policy: seed % 3 === 0 ? 'priority' : 'fcfs',
        maxNumBatchedTokens: seed % 2 === 0 ? 16 : 48,
      } as const;
      const life = { ...PLAIN, seed, engine, numRanks, hostBlocks: 30 + 10 * seed, aborts: 30, sessions: 25 };
      const { host } = await check(life);
      expect(host.hits).toBeGreaterThan(0);
    }
  });

  it.each(['recompute', 'fail'] as const)(
    'and where copies fail, with the policy %s',
    async (loadFailurePolicy) => {
      for (let seed = 1; seed <= 4; seed++) {
        const engine = { pipelineDepth, loadFailurePolicy };
        const { host, scheduler } = await check({
          ...PLAIN,
          seed,
          engine,
          numRanks: 2,
          failures: 30,
          aborts: 10,
        });
        expect(host.loads.failed).toBeGreaterThan(0);
        expect(host.stores.failed).toBeGreaterThan(0);
        if (loadFailurePolicy === 'recompute') expect(scheduler.finished.error).toBe(0);
      }
    },
  );

  it('and with lanes that copy when they like', async () => {
    const { host } = await check({
      ...PLAIN,
      seed: 9,
      engine: { pipelineDepth },
      realLanes: true,
      aborts: 20,
    });
    expect(host.hits).toBeGreaterThan(0);
  });
});
