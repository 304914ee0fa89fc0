// An engine whose GPU decides: calls that wait behind a step, streams, random lives.
import { afterEach, describe, expect, it } from 'vitest';
import '../support/gpu.js';
import { Engine, type EngineOptions, ReferenceExecutor, type RequestStream } from '../../src/index.js';
import { endOf } from '../engine/ends.js';
import { EngineLife } from '../engine/random-life.js';
import { codeOf } from '../support/driver.js';
import { EngineBench, leftovers, outputs, prompt, rejection, tokensOf } from '../support/engine-bench.js';
import { schedulerOf } from '../support/scheduler-of.js';
import { gateOf } from './gate.js';

// More of them: BLOCKSTEP_SEEDS=60 npx vitest run --config test/vitest.config.ts test/cuda/decided-engine.test.ts
const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? 4);
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const open: Engine[] = [];

afterEach(() => {
  for (const engine of open.splice(0)) engine.dispose();
});

function decided(options: Partial<EngineOptions> = {}, async = false): EngineBench {
  const bench = new EngineBench({ authority: 'device', ...options }, async);
  open.push(bench.engine);
  return bench;
}

/** An engine with a step that waits for the GPU. */
async function deciding() {
  const bench = decided();
  const gate = gateOf(schedulerOf(bench.engine));
  const first = bench.submit({ id: 'a' });
  gate.isOpen = false;
  const stepped = bench.engine.stepAsync();
  await turn();
  expect(bench.engine.scheduler.isDeciding).toBe(true);
  return { bench, engine: bench.engine, gate, first, stepped };
}

describe('an engine whose GPU decides', () => {
  it('is stepped in the way that waits, and says who decides', async () => {
    const bench = decided();
    const { engine } = bench;
    const stream = bench.submit({ id: 'a', maxTokens: 2 });
    expect(codeOf(() => engine.step())).toBe('ERR_BLOCKSTEP_AUTHORITY');
    expect(engine.explain('a')).toMatch(/nobody makes the next step: call run\(\) or stepAsync\(\)$/);
    const first = await engine.stepAsync();
    expect(first).toMatchObject({ scheduledTokens: 6, answered: true, state: 'progress' });
    bench.submit({ id: 'b' });
    expect(engine.explain('b')).toMatch(/the GPU decides, in the next step$/);
    while ((await engine.stepAsync()).state === 'progress');
    expect((await stream.result()).finishReason).toBe('length');
    expect(engine.health()).toEqual({ healthy: true, state: 'open', authority: 'device', reasons: [] });
    expect(leftovers(engine)).toEqual([]);
  });

  it('on a host that decides is stepped in either way', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 3 });
    expect(bench.engine.step().scheduledTokens).toBe(6);
    while ((await bench.engine.stepAsync()).state === 'progress');
    expect((await stream.result()).tokens).toHaveLength(3);
    bench.engine.dispose();
  });

  it('runs by itself, streams and sleeps', async () => {
    const bench = decided({ pipelineDepth: 2 });
    const { engine } = bench;
    const ran = engine.run();
    const streams = Array.from({ length: 6 }, (_, i) =>
      bench.submit({ prompt: prompt(6 + i, i), maxTokens: 5 }),
    );
    const texts = await Promise.all(streams.map((stream) => outputs(stream)));
    for (const text of texts) expect(tokensOf(text)).toHaveLength(5);
    await turn();
    await turn();
    const { step } = engine.stats().scheduler;
    for (let i = 0; i < 50; i++) await turn();
    expect(engine.stats().scheduler.step).toBe(step);
    expect(await bench.submit({ maxTokens: 2 }).result()).toMatchObject({ finishReason: 'length' });
    expect(leftovers(engine)).toEqual([]);
    engine.stop();
    await ran;
  });

  it('makes of the reference executor what the host makes of it, wherever that computes', async () => {
    const wanted = { numBlocks: 16, blockSize: 4, maxNumSeqs: 4, maxNumBatchedTokens: 16, maxModelLen: 64 };
    const options = { ...wanted, pipelineDepth: 2 } as const;
    const live = async (authority: 'host' | 'device', device: string) => {
      const executor = new ReferenceExecutor({ ...options, device });
      const engine = new Engine({ ...options, executor, authority, hashSeed: 7 });
      void engine.run();
      const streams = Array.from({ length: 12 }, (_, i): RequestStream => {
        return engine.submit({ prompt: prompt(9 + (i % 5), i % 6), maxTokens: 20 });
      });
      const results = await Promise.all(streams.map((stream) => stream.result()));
      const { numPreemptions } = engine.stats().scheduler;
      expect(engine.health().authority).toBe(authority);
      expect(leftovers(engine)).toEqual([]);
      await engine.shutdown();
      return { tokens: results.map(({ tokens }) => [...tokens]), numPreemptions };
    };
    const expected = await live('host', 'cpu');
    expect(expected.numPreemptions).toBeGreaterThan(0);
    expect(await live('device', 'cpu')).toEqual(expected);
    expect(await live('device', 'cuda')).toEqual(expected);
  });
});

describe('while the GPU decides a step', () => {
  it('a request is submitted behind that step', async () => {
    const { bench, engine, gate, stepped } = await deciding();
    expect(engine.explain('a')).toMatch(/the GPU is deciding the next step$/);
    gate.isOpen = true;
    const second = bench.submit({ id: 'b' });
    expect(engine.scheduler.isDeciding).toBe(false);
    expect(bench.executor.seen.map(({ ids }) => ids)).toEqual([['a']]);
    expect(await stepped).toMatchObject({ scheduledRequests: 1, answered: true });
    await engine.stepAsync();
    expect(bench.executor.seen.at(-1)?.ids).toEqual(['a', 'b']);
    expect(second.ended).toBe(false);
  });

  it('every other call comes behind it too', async () => {
    const calls: ((engine: Engine) => unknown)[] = [
      (engine) => engine.pause('all'),
      (engine) => engine.resetPrefixCache({ resetRunning: true }),
      (engine) => engine.hold(engine.scheduler.get('a')?.handle ?? 0, 'store', 'me'),
      (engine) => engine.fenceTransfers(),
      (engine) => engine.verify(),
      (engine) => engine.abort('nobody'),
      (engine) => engine.abortAll(),
      (engine) => engine.stepAsync(),
    ];
    for (const call of calls) {
      const { bench, engine, gate, stepped } = await deciding();
      gate.isOpen = true;
      await call(engine);
      expect(bench.executor.seen[0].ids, String(call)).toEqual(['a']);
      expect(await stepped).toMatchObject({ scheduledRequests: 1, answered: true });
    }
  });

  it('an abort ends its stream at once, and its request before the next step', async () => {
    const { engine, gate, first, stepped } = await deciding();
    first.abort();
    expect((await first.result()).finishReason).toBe('abort');
    gate.isOpen = true;
    expect(await stepped).toMatchObject({ scheduledRequests: 1, ended: 1 });
    expect(leftovers(engine)).toEqual([]);
  });

  it('a disposed engine ends it', async () => {
    const { bench, engine, first, stepped } = await deciding();
    engine.dispose();
    expect(await rejection(stepped)).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    expect(await rejection(first.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    expect([bench.executor.seen.length, bench.executor.disposals]).toEqual([0, 1]);
  });

  it('a running engine is stopped behind it, and shut down', async () => {
    const bench = decided();
    const { engine } = bench;
    const gate = gateOf(schedulerOf(engine));
    const ran = engine.run();
    const stream = bench.submit({ maxTokens: 3 });
    gate.isOpen = false;
    while (!engine.scheduler.isDeciding) await turn();
    engine.stop();
    await ran;
    gate.isOpen = true;
    while (engine.scheduler.isDeciding) await turn();
    await turn();
    expect([bench.executor.seen.length, engine.isRunning]).toEqual([1, false]);
    void engine.run();
    gate.isOpen = false;
    while (!engine.scheduler.isDeciding) await turn();
    const ended = engine.shutdown();
    gate.isOpen = true;
    await ended;
    expect((await stream.result()).finishReason).toBe('length');
    expect(engine.health().state).toBe('disposed');
  });

  it('an abort has nobody wait, in a running engine neither', async () => {
    const bench = decided();
    const { engine } = bench;
    const gate = gateOf(schedulerOf(engine));
    void engine.run();
    const streams = [bench.submit(), bench.submit()];
    gate.isOpen = false;
    while (!engine.scheduler.isDeciding) await turn();
    streams[0].abort();
    for (let i = 0; i < 3; i++) await turn();
    expect([engine.scheduler.isDeciding, streams[0].ended, streams[1].ended]).toEqual([true, true, false]);
    gate.isOpen = true;
    expect((await streams[1].result()).finishReason).toBe('length');
    expect(leftovers(engine)).toEqual([]);
  });

  it('what breaks the scheduler breaks the engine, once', async () => {
    const { engine, gate, first, stepped } = await deciding();
    gate.error = new Error('the device is gone');
    expect(codeOf(() => engine.submit({ prompt: prompt(3), maxTokens: 1 }))).toBe('ERR_BLOCKSTEP_INVARIANT');
    expect(await rejection(stepped)).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
    expect(await rejection(first.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_INVARIANT' });
    expect(engine.health()).toMatchObject({ healthy: false, state: 'broken', authority: 'device' });
    expect(engine.health().reasons[0]).toContain('the device is gone');
  });
});

describe('random lives of an engine whose GPU decides', () => {
  for (let seed = 0; seed < SEEDS; seed++) {
    it(`seed ${seed}: every text is right, every client is told once how it ended, nothing is left`, async () => {
      const life = new EngineLife(seed, { authority: 'device' });
      await life.run(200);
      const { engine, clients, model } = life;
      expect(leftovers(engine)).toEqual([]);
      for (const client of clients) {
        const end = await endOf(client);
        expect(['stop', 'length', 'abort', 'aborted with a reason', 'ERR_BLOCKSTEP_EXECUTOR']).toContain(end);
        if (client.stream.handle < 0) continue;
        const right = model.text(client.stream.handle, client.stream.numOutputTokens);
        const read = tokensOf(client.read);
        expect(read).toEqual(right.slice(0, read.length));
      }
      expect(engine.stats().steps).toBeGreaterThan(5);
      engine.dispose();
    });
  }
});
