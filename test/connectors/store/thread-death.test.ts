// Threads that die.
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { StoreThread } from '../../../src/connectors/store/client/store-thread.js';
import type { StoreOptions } from '../../../src/connectors/store/index.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { pause } from '../../support/waiting.js';
import { done, there } from './support/drive.js';
import { end, live, serve } from './support/life.js';

/** The worker threads that this process has started. */
const threads: Worker[] = [];
process.on('worker', (thread) => threads.push(thread));

function kill(): void {
  for (const thread of threads.splice(0)) void thread.terminate();
}

const STORES: Record<string, () => Promise<StoreOptions>> = {
  'a server': async () => ({ url: (await RedisServer.start()).url }),
  'a file': () => Promise.resolve({ path: join(temporaryFolder(), 'kv.slots'), maxBytes: 2 ** 24 }),
};

describe.each(Object.entries(STORES))('threads that die, over %s', (name, make) => {
  const isSkipped = name === 'a server' && whyNoRedis !== null;
  if (isSkipped) console.log(`skipped: ${whyNoRedis}`);
  it.skipIf(isSkipped)('a thread that dies costs its jobs, and is started again', async () => {
    let now = 0;
    const store = await make();
    const staging = BlockArena.allocate({ numBlocks: 4, bytesPerBlock: 512 });
    const thread = new StoreThread({ store, staging, pauseMs: 10, now: () => now });
    expect(await done(thread, 'put', ['k'], [0])).toEqual([Outcome.done]);
    // The thread is ending already, and nobody knows: its job has failed, and the job's place is free.
    kill();
    expect(await done(thread, 'get', ['k'], [1])).toEqual([Outcome.failed]);
    while (thread.stats().deaths === 0) await pause();
    expect(thread.accepts).toBe(false);
    expect(await there(thread, ['k'])).toEqual([Outcome.failed]);
    now += 10;
    expect(thread.accepts).toBe(true);
    expect(await there(thread, ['k'])).toEqual([Outcome.done]);
    expect(await done(thread, 'get', ['k'], [1])).toEqual([Outcome.done]);
    expect(thread.stats()).toMatchObject({ deaths: 1, state: 'up', pending: 0 });
    await thread.close();
    expect(await there(thread, ['k'])).toEqual([Outcome.failed]);
  });

  it.skipIf(isSkipped)('threads that die again and again cost no request', async () => {
    const store = await make();
    const served = serve({ store, numRanks: 2, pauseMs: 5 });
    const onRound = (round: number) => {
      if (round % 60 === 30) kill();
    };
    await live(served, { seed: 1, requests: 40, prompts: 8, onRound });
    const deaths = served.workers.map((worker) => worker.stats().store.deaths);
    expect(Math.min(...deaths)).toBeGreaterThan(0);
    await end(served);
  });
});
