// A prefill handed over to another engine; engines that share and engines that do not.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { MultiConnector } from '../../../src/connectors/multi/index.js';
import type { StoreOptions } from '../../../src/connectors/store/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { isQuick } from '../../support/share.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { pause, until } from '../../support/waiting.js';
import { BLOCK, end, live, type Served, serve, TOKENS } from './support/life.js';

/** Makes an engine store a prompt. */
async function prefilled(store: StoreOptions, prompt: Int32Array): Promise<void> {
  const first = serve({ store });
  void first.engine.run();
  await first.engine.submit({ prompt, maxTokens: 1 }).result();
  await until(() => first.workers[0].stats().store.stored >= Math.floor(prompt.length / BLOCK), 'the stores');
  await end(first);
}

async function textOf({ engine }: Served, prompt: Int32Array): Promise<number[]> {
  const { tokens } = await engine.submit({ prompt, maxTokens: TOKENS }).result();
  return [...tokens];
}

it('a prefill is handed over to another engine; requests that want the same at once load it once', async () => {
  const path = join(temporaryFolder(), 'kv.slots');
  const prompt = wordy(34, 1);
  await prefilled({ path }, prompt);
  const second = serve({ store: { path } });
  void second.engine.run();
  const texts = await Promise.all([1, 2, 3].map(() => textOf(second, prompt)));
  const text = unpagedText(prompt, TOKENS, { seed: 3 });
  expect(texts.map((each) => each.join())).toEqual(texts.map(() => [...text].join()));
  // Eight blocks are full, and the last token is computed.
  expect(second.workers[0].stats().store).toMatchObject({ hits: 8, misses: 0 });
  expect(second.connector.stats()).toMatchObject({ loadedBlocks: 8, missingBlocks: 0 });
  expect(second.executors[0].faults).toEqual([]);
  await end(second);
});

it('engines that are given no hash seed have that of the file, also behind several connectors', async () => {
  const path = join(temporaryFolder(), 'kv.slots');
  const prompt = wordy(34, 1);
  const seedless = { store: { path }, engine: { hashSeed: undefined } } as never;
  const seeds: Uint8Array[] = [];
  for (const hits of [0, 8]) {
    const served = serve(seedless);
    const { connector } = served;
    seeds.push(served.engine.scheduler.config.hashSeed);
    expect(new MultiConnector({ children: [connector], numRanks: 1 }).hashSeed).toEqual(seeds[0]);
    void served.engine.run();
    await textOf(served, prompt);
    await until(() => served.workers[0].stats().store.stored >= 8 - hits, 'the stores');
    expect(served.workers[0].stats().store).toMatchObject({ hits });
    await end(served);
  }
  expect(seeds[1]).toEqual(seeds[0]);
});

it.skipIf(isQuick)('engines that differ do not share, and nothing is found after a reset', async () => {
  const path = join(temporaryFolder(), 'kv.slots');
  const prompt = wordy(34, 1);
  await prefilled({ path }, prompt);
  for (const other of [{ model: 'other' }, { hashSeed: 8 }, { numRanks: 2 }]) {
    const served = serve({ store: { path }, ...other });
    await live(served, { seed: 1, requests: 4, prompts: 2, aborts: 0 });
    void served.engine.run();
    await textOf(served, prompt);
    expect(served.workers[0].stats().store).toMatchObject({ hits: 0, corrupt: 0 });
    await end(served);
  }
  const same = serve({ store: { path } });
  expect(same.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true, connector: true });
  void same.engine.run();
  await textOf(same, prompt);
  await pause();
  expect(same.workers[0].stats().store.hits).toBe(0);
  await end(same);
});

it.skipIf(whyNoRedis !== null)('a block that is found and cannot be used has the rest computed', async () => {
  const server = await RedisServer.start();
  const store = { url: server.url };
  const prompt = wordy(34, 1);
  await prefilled(store, prompt);
  const [key] = server.command('keys', '*').split('\n');
  server.command('setrange', key, '60', 'damaged');
  const served = serve({ store });
  void served.engine.run();
  expect(await textOf(served, prompt)).toEqual([...unpagedText(prompt, TOKENS, { seed: 3 })]);
  const { loadedBlocks, missingBlocks } = served.connector.stats();
  expect([(loadedBlocks ?? 0) + (missingBlocks ?? 0), (missingBlocks ?? 0) > 0]).toEqual([8, true]);
  expect(served.workers[0].stats().store.corrupt).toBe(1);
  expect(served.executors[0].faults).toEqual([]);
  await end(served);
});
