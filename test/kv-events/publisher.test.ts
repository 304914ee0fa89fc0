// The publisher: 10,000 random steps with lost messages, every form, replay, bad options.
import { describe, expect, it, onTestFinished } from 'vitest';
import type { KvGroupOptions } from '../../src/index.js';
import { KvEventPublisher, type KvEventPublisherOptions } from '../../src/kv-events/index.js';
import { share, thinned } from '../support/share.js';
import { Follower } from './follower.js';
import { BLOCK_SIZE, driveRandomly, engineHashes, smallEngine, tieredEngine } from './random-engine.js';

async function open(options: KvEventPublisherOptions = {}) {
  const addresses = { endpoint: 'tcp://127.0.0.1:*', replayEndpoint: 'tcp://127.0.0.1:*' };
  const publisher = await KvEventPublisher.open({ ...addresses, ...options });
  onTestFinished(() => publisher.close());
  const { events, replay } = publisher.endpoints;
  const follow = (lose?: (heard: number) => boolean): Follower => {
    const follower = new Follower(events, replay as string, lose);
    onTestFinished(() => follower.close());
    follower.start();
    return follower;
  };
  return { publisher, follow };
}

describe('KV cache events over ZeroMQ', () => {
  it('give a subscriber exactly the index of the core, over thousands of random steps, with lost messages', async () => {
    const { publisher, follow } = await open({ bufferSteps: 20_000 });
    const engine = smallEngine(publisher);
    onTestFinished(() => engine.dispose());
    const follower = follow((heard) => heard % 7 === 3);
    for (let part = 0; part < share(2, 4, 10); part++) {
      await driveRandomly(engine, 1000, part);
      const { batches } = publisher.stats();
      await follower.reach(batches - 1);
      expect([...(follower.hashes.get('GPU') ?? [])].sort()).toEqual(engineHashes(engine));
    }
    expect(engine.scheduler.core.evictions).toBeGreaterThan(share(200, 400, 1000));
    expect(publisher.stats()).toMatchObject({ dropped: 0, failedReplays: 0 });
    expect(engine.scheduler.stats().anomalies).not.toHaveProperty('kv-events-failed');
  });

  it.each<[KvEventPublisherOptions, number]>([
    [{ eventFormat: 'map', hashFormat: 'bytes' }, 32],
    [{ eventFormat: 'map', hashFormat: 'int' }, 16],
    [{ eventFormat: 'array', hashFormat: 'bytes' }, 32],
    [{ eventFormat: 'array', hashFormat: 'int', report: 'all', topic: 'kv@pod@model' }, 16],
  ])('can be read in every form: %o', async (options, digits) => {
    const { publisher, follow } = await open(options);
    const engine = smallEngine(publisher);
    onTestFinished(() => engine.dispose());
    await driveRandomly(engine, 500, 3);
    const follower = follow();
    await follower.reach(publisher.stats().batches - 1);
    const expected = engineHashes(engine).map((hash) => hash.slice(-digits));
    expect([...(follower.hashes.get('GPU') ?? [])].sort()).toEqual(expected.sort());
  });

  it('tell of a tier too, by its medium', async () => {
    const { publisher, follow } = await open();
    const { engine, connector } = tieredEngine(publisher);
    onTestFinished(() => engine.dispose());
    const follower = follow();
    for (let part = 0; part < 3; part++) {
      await driveRandomly(engine, 1000, part);
      // The copies that are under way end, and the stored blocks are reported with the next plan.
      engine.abortAll();
      while (engine.step().state !== 'idle') await new Promise((resolve) => setImmediate(resolve));
      engine.submit({ id: `last ${part}`, prompt: [1], maxTokens: 1 });
      while (engine.step().state !== 'idle') await new Promise((resolve) => setImmediate(resolve));
      await follower.reach(publisher.stats().batches - 1);
      expect([...(follower.hashes.get('GPU') ?? [])].sort()).toEqual(engineHashes(engine));
      const { blocks, evictions } = connector.stats().host;
      expect(follower.hashes.get('CPU')?.size).toBe(blocks);
      expect(evictions).toBeGreaterThan(100 * part);
    }
  });

  const shapes: readonly KvGroupOptions[][][] = [
    [[{ type: 'full' }, { type: 'sliding', window: 10 }]],
    [
      [
        { type: 'sliding', window: 9, blockSize: 8 },
        { type: 'full' },
        { type: 'chunked', chunk: 8, blockSize: 8 },
      ],
    ],
    [[{ type: 'full' }, { type: 'mamba', mode: 'align' }]],
  ];
  it.each(thinned(shapes, 1, 1))('tell of each KV cache group: %j', async (kvGroups) => {
    const { publisher, follow } = await open({ bufferSteps: 20_000 });
    const engine = smallEngine(publisher, { kvGroups });
    onTestFinished(() => engine.dispose());
    const follower = follow((heard) => heard % 7 === 3);
    for (let part = 0; part < 3; part++) {
      await driveRandomly(engine, 1000, part);
      await follower.reach(publisher.stats().batches - 1);
      for (const group of kvGroups.keys()) {
        const known = follower.hashes.get(group === 0 ? 'GPU' : `GPU of ${group}`);
        expect([...(known ?? [])].sort(), `group ${group}`).toEqual(engineHashes(engine, group));
      }
    }
    expect(engine.scheduler.core.evictions).toBeGreaterThan(300);
    expect(engine.scheduler.stats().anomalies).not.toHaveProperty('kv-events-failed');
  });

  it('are what vLLM writes', async () => {
    const { publisher, follow } = await open({ hashFormat: 'int' });
    const engine = smallEngine(publisher);
    onTestFinished(() => engine.dispose());
    const prompt = Array.from({ length: 9 }, (_, i) => i);
    const submitted = engine.submit({ id: 'a', prompt, maxTokens: 1, cacheSalt: 's', adapter: 'lora' });
    while (engine.step().state === 'progress');
    await submitted.result();
    engine.resetPrefixCache();
    const follower = follow();
    await follower.reach(publisher.stats().batches - 1);
    const hash = (index: number) => expect.any(index >= 0 ? BigInt : Number);
    expect(follower.batches).toEqual([
      [
        expect.any(Number),
        [
          {
            type: 'BlockStored',
            block_hashes: [hash(0), hash(1)],
            parent_block_hash: null,
            token_ids: [0, 1, 2, 3, 4, 5, 6, 7],
            block_size: BLOCK_SIZE,
            lora_id: null,
            medium: 'GPU',
            lora_name: 'lora',
            extra_keys: [['lora', 's'], ['lora']],
            group_idx: 0,
            kv_cache_spec_kind: 'full_attention',
            first_block_idx: 0,
          },
        ],
        0,
      ],
      [expect.any(Number), [{ type: 'AllBlocksCleared' }], 0],
    ]);
  });

  it('name the blocks that a request found, if that is wanted', async () => {
    const { publisher, follow } = await open({ report: 'all' });
    const engine = smallEngine(publisher);
    onTestFinished(() => engine.dispose());
    const prompt = Array.from({ length: 9 }, (_, i) => i);
    for (const id of ['a', 'b']) {
      const submitted = engine.submit({ id, prompt, maxTokens: 1 });
      while (engine.step().state === 'progress');
      await submitted.result();
    }
    const follower = follow();
    await follower.reach(publisher.stats().batches - 1);
    const [first, second] = follower.batches.map(([, events]) => (events as unknown[])[0]);
    expect(second).toEqual(first);
  });

  it('drops what nobody has time for, and leaves a gap', async () => {
    const { publisher, follow } = await open({ maxQueueSize: 2, bufferSteps: 2 });
    const follower = follow(() => true);
    for (let i = 0; i < 5; i++) publisher.onEvents([{ type: 'cleared' }]);
    while (publisher.stats().waiting > 0) await new Promise((resolve) => setImmediate(resolve));
    publisher.onEvents([{ type: 'cleared' }]);
    while (publisher.stats().waiting > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(publisher.stats()).toMatchObject({ batches: 6, dropped: 3 });
    // Batches 2 to 4 are nowhere, and batch 0 was too long ago.
    await follower.replay();
    expect(follower.last).toBe(-1);
    await publisher.close();
    expect(publisher.stats()).toMatchObject({ waiting: 0 });
    publisher.onEvents([{ type: 'cleared' }]);
    expect(publisher.stats()).toMatchObject({ batches: 6, waiting: 0 });
  });

  it.each<[object, RegExp]>([
    [{ endpoint: 'localhost:5557' }, /endpoint must be an address of ZeroMQ.*, got "localhost:5557"/],
    [{ endpoint: 'tcp://*:99999' }, /endpoint|address/],
    [{ topic: 5 }, /topic/],
    [{ bufferSteps: 0 }, /bufferSteps/],
    [{ eventFormat: 'json' }, /eventFormat must be one of map, array, got "json"/],
    [{ hashFormat: 'hex' }, /hashFormat/],
    [{ report: 'full' }, /report/],
    [{ publisher: 'zmq' }, /unknown|known names/],
    [{ dataParallelRank: -1 }, /dataParallelRank/],
  ])('refuses %o', async (options, message) => {
    const opening = KvEventPublisher.open({ endpoint: 'tcp://127.0.0.1:*', ...options });
    await expect(opening).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_BAD_ARG' });
    await expect(opening).rejects.toThrow(message);
  });

  it('refuses an address that is in use', async () => {
    const { publisher } = await open();
    const endpoint = publisher.endpoints.events;
    const again = KvEventPublisher.open({ endpoint: 'tcp://127.0.0.1:*', replayEndpoint: endpoint });
    await expect(again).rejects.toThrow(/replayEndpoint must be an address that can be bound/);
  });
});
