// Every text is that of an unpaged computation; another engine finds what the first one left.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { StoreOptions } from '../../../src/connectors/store/index.js';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { share } from '../../support/share.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { end, live, serve, stored } from './support/life.js';

const STORES: readonly [string, boolean, () => Promise<StoreOptions>][] = [
  ['a slot file', false, () => Promise.resolve({ path: join(temporaryFolder(), 'kv.slots') })],
  ['Redis', whyNoRedis !== null, async () => ({ url: (await RedisServer.start()).url })],
];

/** Depth of the pipeline, ranks, blocks of the pool. */
const SHAPES = [
  [1, 1, 41],
  [2, 2, 41],
  [3, 1, 25],
  [3, 2, 120],
] as const;

describe.each(STORES)('over %s', (name, isSkipped, makeStore) => {
  it
    .skipIf(isSkipped)
    .each(
      SHAPES.filter((_, i) =>
        share(i % 4 === Number(name === 'Redis'), i % 2 === Number(name === 'Redis'), true),
      ),
    )(
    'every text is that of an unpaged computation: depth %i, %i ranks, %i blocks',
    async (pipelineDepth, numRanks, numBlocks) => {
      const store = await makeStore();
      const served = serve({ store, numRanks, pipelineDepth, numBlocks });
      await live(served, { seed: pipelineDepth * 10 + numRanks, requests: 40, prompts: 12 });
      // On a busy machine the first life can be over before a thread of the store has even started.
      await stored(served);
      await live(served, { seed: pipelineDepth * 10 + numRanks, requests: 40, prompts: 12 });
      const { scheduler } = served.engine.stats();
      expect(scheduler.freeBlocks).toBe(numBlocks - 1);
      // Else this would have shown nothing. A pool for all prompts needs no store.
      if (numBlocks < 100) expect(scheduler.externalHits).toBeGreaterThan(20);
      if (numBlocks < 30) expect(scheduler.numPreemptions).toBeGreaterThan(0);
      expect(served.connector.stats().store).toMatchObject({ state: 'up', failures: 0, deaths: 0 });

      // Another engine, that of the machine beside it, finds what the first one left.
      await end(served);
      const other = serve({ store, numRanks, pipelineDepth, numBlocks });
      await live(other, { seed: 5, requests: 12, prompts: 12, aborts: 0 });
      expect(other.engine.stats().scheduler.externalHits).toBeGreaterThan(20);
      const reset = other.engine.resetPrefixCache({ resetConnector: true });
      expect(reset).toMatchObject({ ok: true, connector: true });
      await end(other);
    },
  );
});
