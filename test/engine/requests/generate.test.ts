// `generate` gives a batch of texts in order, drives the engine if nobody does, and respects the
// bounded queue.
import { describe, expect, it } from 'vitest';
import type { GenerateProgress } from '../../../src/engine/generate-options.js';
import type { BlockstepError, EngineOptions, GenerateInput } from '../../../src/index.js';
import { answerOf, EngineBench, leftovers, prompt, Random, rejection } from '../../support/engine-bench.js';
import { codeOf, rested, said, textOf, turn } from './generate-support.js';

describe('a batch', () => {
  it('gives the results in the order of the prompts, however they end', async () => {
    const bench = new EngineBench();
    const lengths = [6, 3, 9, 1, 12, 5, 7];
    const results = await bench.engine.generate(
      lengths.map((length, i) => ({ prompt: prompt(length, i), maxTokens: 1 + ((7 * i) % 5) })),
    );
    expect(results.map(textOf)).toEqual(lengths.map((length, i) => said(length, 1 + ((7 * i) % 5))));
    await rested(bench);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('takes prompts alone and requests, and what they share where they do not say otherwise', async () => {
    const bench = new EngineBench();
    const params = { temperature: 0 };
    const seen: unknown[] = [];
    bench.executor.onExecute = ({ requests, numRequests }) => {
      for (const { id, params } of requests.slice(0, numRequests)) seen.push([id, params]);
    };
    const results = await bench.engine.generate(
      [prompt(4), { prompt: prompt(5), id: 'mine', maxTokens: 1 }, { prompt: prompt(6), params: 'own' }],
      { maxTokens: 2, params },
    );
    expect(results.map(textOf)).toEqual([said(4, 2), said(5, 1), said(6, 2)]);
    expect(results.map(({ id }) => id)).toEqual(['request-1', 'mine', 'request-2']);
    expect(new Map(seen as [string, unknown][])).toEqual(
      new Map<string, unknown>([
        ['request-1', params],
        ['mine', params],
        ['request-2', 'own'],
      ]),
    );
  });

  it.each<[string, (all: Int32Array[]) => Iterable<GenerateInput> | AsyncIterable<GenerateInput>]>([
    ['a set', (all) => new Set(all)],
    ['a generator', (all) => all.values()],
    [
      'an async generator',
      async function* (all) {
        for (const one of all) {
          await turn();
          yield one;
        }
      },
    ],
    ['nothing', () => []],
  ])('takes %s', async (name, source) => {
    const bench = new EngineBench();
    const all = [prompt(3), prompt(4), prompt(5)];
    const results = await bench.engine.generate(source(all), { maxTokens: 2 });
    expect(results.map(textOf)).toEqual(name === 'nothing' ? [] : [3, 4, 5].map((length) => said(length, 2)));
  });

  it('reads its prompts as the engine gets on, so that few of them lie in it at once', async () => {
    const bench = new EngineBench({ maxNumSeqs: 4 });
    let read = 0;
    let done = 0;
    let most = 0;
    bench.executor.onExecute = () => {
      const { streams } = bench.engine.stats();
      most = Math.max(most, streams);
      expect(read - done).toBeLessThanOrEqual(9);
    };
    function* prompts() {
      for (let i = 0; i < 2000; i++) {
        read++;
        yield prompt(1 + (i % 9), i % 3);
      }
    }
    const results = await bench.engine.generate(prompts(), {
      maxTokens: 3,
      onProgress: (progress) => {
        ({ done } = progress);
      },
    });
    expect(results.map(textOf)).toEqual(Array.from({ length: 2000 }, (_, i) => said(1 + (i % 9), 3)));
    expect(most).toBe(8);
  });

  it('says how far it is', async () => {
    const bench = new EngineBench();
    const told: GenerateProgress[] = [];
    const onProgress = (progress: GenerateProgress) => told.push(progress);
    await bench.engine.generate([prompt(3), prompt(0), prompt(4)], { maxTokens: 2, onProgress });
    expect(told).toEqual([
      { done: 1, failed: 1, total: 3, tokens: 0 },
      { done: 2, failed: 1, total: 3, tokens: 2 },
      { done: 3, failed: 1, total: 3, tokens: 4 },
    ]);
    told.length = 0;
    await bench.engine.generate([prompt(3), prompt(4)].values(), { maxTokens: 2, onProgress });
    expect(told.map(({ total }) => total)).toEqual([2, 2]);
    told.length = 0;
    const many = Array.from({ length: 30 }, () => prompt(3));
    await bench.engine.generate(many.values(), { maxTokens: 2, onProgress });
    expect([told[0].total, told[29].total]).toEqual([null, 30]);
  });
});

describe('a batch and who drives the engine', () => {
  it('runs it if nobody does, and stops it again', async () => {
    const bench = new EngineBench({ pipelineDepth: 2 });
    const batch = bench.engine.generate([prompt(3)], { maxTokens: 2 });
    expect(bench.engine.isRunning).toBe(true);
    await batch;
    expect(bench.engine.isRunning).toBe(false);
    await rested(bench);
    expect(leftovers(bench.engine)).toEqual([]);
    // The engine is the caller's again: nothing happens by itself.
    const stream = bench.submit();
    for (let i = 0; i < 5; i++) await turn();
    expect(stream.numOutputTokens).toBe(0);
  });

  it('leaves it running if somebody ran it before, or meanwhile', async () => {
    for (const when of ['before', 'meanwhile', 'behind']) {
      const bench = new EngineBench();
      if (when === 'before') void bench.engine.run();
      const batch = bench.engine.generate([prompt(3)], { maxTokens: 20 });
      if (when === 'meanwhile') void bench.engine.run();
      await batch;
      if (when === 'behind') void bench.engine.run();
      expect(bench.engine.isRunning).toBe(true);
      expect((await bench.submit().result()).finishReason).toBe('length');
      expect(bench.engine.isRunning).toBe(true);
      bench.engine.dispose();
    }
  });

  it('comes to rest, also where something still uses blocks', async () => {
    const bench = new EngineBench();
    bench.executor.onExecute = ({ requests: [{ handle }] }) => {
      bench.executor.onExecute = () => {};
      bench.engine.hold(handle, 'store', 'job');
    };
    await bench.engine.generate([prompt(3)], { maxTokens: 3 });
    await rested(bench);
    let reads = 0;
    bench.onClock = () => {
      reads++;
    };
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(reads).toBe(0);
  });

  it('leaves unfinished what others have in it', async () => {
    const bench = new EngineBench();
    const other = bench.submit({ maxTokens: 50 });
    await bench.engine.generate([prompt(3)], { maxTokens: 2 });
    expect(bench.engine.isRunning).toBe(false);
    for (let i = 0; i < 3; i++) await turn();
    const { numOutputTokens } = other;
    expect(numOutputTokens).toBeLessThan(20);
    for (let i = 0; i < 5; i++) await turn();
    expect(other.numOutputTokens).toBe(numOutputTokens);
    bench.steps();
    expect(other.numOutputTokens).toBe(50);
  });

  it('shares it with another batch, whichever ends first', async () => {
    const bench = new EngineBench();
    const [short, long] = [1, 40].map((maxTokens) =>
      bench.engine.generate([prompt(3), prompt(5)], { maxTokens }),
    );
    expect((await short).map(textOf)).toEqual([said(3, 1), said(5, 1)]);
    expect(bench.engine.isRunning).toBe(true);
    expect((await long).map(textOf)).toEqual([said(3, 40), said(5, 40)]);
    expect(bench.engine.isRunning).toBe(false);
  });

  it('waits while it is stopped, and goes on with it', async () => {
    const bench = new EngineBench();
    const batch = bench.engine.generate([prompt(3)], { maxTokens: 30 });
    await turn();
    bench.engine.stop();
    let isDone = false;
    void batch.then(() => {
      isDone = true;
    });
    for (let i = 0; i < 40; i++) await turn();
    expect([isDone, bench.engine.isRunning]).toEqual([false, false]);
    void bench.engine.run();
    expect((await batch).map(textOf)).toEqual([said(3, 30)]);
    bench.engine.stop();
  });
});

describe('a batch and a bounded queue', () => {
  it('is never refused, and leaves half of the queue to others', async () => {
    for (const bounds of [
      { maxQueuedRequests: 1 },
      { maxQueuedRequests: 6 },
      { maxQueuedTokens: 20 },
      { maxQueuedRequests: 3, maxQueuedTokens: 12 },
    ] satisfies Partial<EngineOptions>[]) {
      const bench = new EngineBench({ maxNumSeqs: 4, ...bounds });
      const { maxQueuedRequests = 99, maxQueuedTokens = 99 } = bounds as Partial<EngineOptions>;
      let most = 0;
      let running = 0;
      bench.executor.onExecute = () => {
        const { queuedRequests, queuedTokens, scheduler } = bench.engine.stats();
        running = Math.max(running, scheduler.numRunning);
        expect(queuedRequests).toBeLessThanOrEqual(Math.max(1, maxQueuedRequests / 2));
        if (queuedRequests > 1) expect(queuedTokens).toBeLessThanOrEqual(maxQueuedTokens / 2);
        most = Math.max(most, queuedRequests);
      };
      const lengths = Array.from({ length: 60 }, (_, i) => 1 + (i % 12));
      const results = await bench.engine.generate(
        lengths.map((length) => prompt(length)),
        { maxTokens: 6 },
      );
      expect(results.map(textOf)).toEqual(lengths.map((length) => said(length, 6)));
      expect(bench.engine.stats().overloads).toBe(0);
      // The call waits for room in the queue, and not for requests to end.
      expect(running).toBe(4);
      expect(most).toBeGreaterThan(0);
    }
  });

  it('waits for room that others take', async () => {
    const bench = new EngineBench({ maxNumSeqs: 1, maxQueuedRequests: 2 });
    const others = [bench.submit({ maxTokens: 3 }), bench.submit({ maxTokens: 3 })];
    const results = await bench.engine.generate([prompt(3), prompt(4)], { maxTokens: 2 });
    expect(results.map(textOf)).toEqual([said(3, 2), said(4, 2)]);
    expect(others.map(({ ended }) => ended)).toEqual([true, true]);
    expect(bench.engine.stats().overloads).toBe(0);
  });

  it('forgets that it waited for room when it ends', async () => {
    const bench = new EngineBench({ maxNumSeqs: 1, maxQueuedRequests: 2 });
    bench.engine.pause('all');
    bench.submit();
    const controller = new AbortController();
    const batch = bench.engine.generate([prompt(3)], { maxTokens: 2, signal: controller.signal });
    await turn();
    expect(bench.engine.scheduler.backlog.listeners.size).toBe(1);
    controller.abort('mine');
    expect(await rejection(batch)).toBe('mine');
    expect(bench.engine.scheduler.backlog.listeners.size).toBe(0);
  });

  it('tells a prompt that is too long for it so', async () => {
    const bench = new EngineBench({ maxQueuedTokens: 10 });
    const results = await bench.engine.generate([prompt(10), prompt(11)], { maxTokens: 2 });
    expect(results[0].finishReason).toBe('length');
    expect(codeOf(results[1])).toBe('ERR_BLOCKSTEP_UNFIT');
  });
});

describe('batches in random lives', () => {
  it.each([1, 2, 3, 4, 5, 6])('seed %i: every prompt has its own text, beside others', async (seed) => {
    const random = new Random(seed);
    const depth = (1 + (seed % 3)) as 1 | 2 | 3;
    const bench = new EngineBench({
      pipelineDepth: depth,
      numBlocks: 24,
      maxNumSeqs: 1 + random.below(5),
      maxQueuedRequests: 1 + random.below(9),
      maxQueuedTokens: 16 + random.below(40),
    });
    bench.executor.answer = (plan) => {
      const answer = answerOf(plan);
      return random.chance(40) ? answer : new Promise((resolve) => setImmediate(resolve, answer));
    };
    const others: Promise<unknown>[] = [];
    const batches = Array.from({ length: 3 }, async () => {
      const asked = Array.from({ length: 20 + random.below(60) }, () => ({
        prompt: prompt(1 + random.below(15), random.below(4)),
        maxTokens: 1 + random.below(12),
      }));
      const results = await bench.engine.generate(asked, {
        onProgress() {
          if (!random.chance(20)) return;
          try {
            others.push(bench.submit({ maxTokens: 3 }).result());
          } catch (error) {
            expect((error as BlockstepError).code).toBe('ERR_BLOCKSTEP_OVERLOADED');
          }
        },
      });
      expect(results.map(textOf)).toEqual(
        asked.map(({ prompt, maxTokens }) => said(prompt.length, maxTokens)),
      );
    });
    await Promise.all(batches);
    void bench.engine.run();
    await Promise.all(others);
    await rested(bench);
    expect(leftovers(bench.engine)).toEqual([]);
    bench.engine.dispose();
  });
});
