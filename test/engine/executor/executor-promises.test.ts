// Answers by promise are read once and settled once; a hung executor breaks the engine; calls from
// inside the executor.
import { describe, expect, it } from 'vitest';
import type { BlockstepError } from '../../../src/index.js';
import {
  answerOf,
  EngineBench,
  leftovers,
  outputs,
  prompt,
  rejection,
  settled,
  tokensOf,
} from '../../support/engine-bench.js';

const mine = new Error('mine');

describe('a promise', () => {
  it('that is settled twice is settled once', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1 });
    bench.executor.answer = (plan) => ({
      // biome-ignore lint/suspicious/noThenProperty: that is what it is about
      then(resolve: (value: unknown) => void, reject: (error: unknown) => void) {
        resolve(answerOf(plan));
        resolve(5);
        reject(mine);
        throw mine;
      },
    });
    bench.engine.step();
    await settled();
    bench.steps();
    expect([...(await stream.result()).tokens]).toEqual([600]);
    expect(bench.engine.stats()).toMatchObject({ steps: 1, failedSteps: 0, lateAnswers: 0 });
  });

  it('of a promise of a promise is awaited to its end', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1 });
    bench.executor.answer = (plan) => ({
      // biome-ignore lint/suspicious/noThenProperty: that is what it is about
      then: (resolve: (value: unknown) => void) => resolve(Promise.resolve(Promise.resolve(answerOf(plan)))),
    });
    bench.engine.step();
    await settled();
    bench.steps();
    expect([...(await stream.result()).tokens]).toEqual([600]);
  });

  it('of the executor is asked for its then once', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1 });
    let asked = 0;
    bench.executor.answer = (plan) =>
      Object.defineProperty({}, 'then', {
        get() {
          asked++;
          return (resolve: (value: unknown) => void) => resolve(answerOf(plan));
        },
      });
    bench.engine.step();
    await settled();
    bench.steps();
    expect(stream.ended).toBe(true);
    expect(asked).toBe(1);
  });

  it('each field of an answer is read once', () => {
    const bench = new EngineBench({ numSpeculativeTokens: 1 });
    bench.submit({ maxTokens: 1 });
    const reads: string[] = [];
    bench.executor.answer = (plan) =>
      new Proxy(answerOf(plan), {
        get(target, key) {
          reads.push(String(key));
          return Reflect.get(target, key) as unknown;
        },
      });
    bench.engine.step();
    expect(reads.sort()).toEqual(['counts', 'drafts', 'errors', 'extras', 'lostBlocks', 'then', 'tokens']);
  });
});

describe('a hung executor', () => {
  it('breaks the engine: every stream fails with a code, health says why, every call throws it', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 500 }, true);
    const running = bench.submit({ id: 'a' });
    const waiting = outputs(running);
    waiting.catch(() => {});
    bench.engine.step();
    bench.time += 499;
    expect(bench.engine.step().state).toBe('waiting');
    expect(bench.engine.health().healthy).toBe(true);
    bench.time += 1;
    // Health knows before anybody steps.
    expect(bench.engine.health()).toMatchObject({ healthy: false, state: 'open' });
    expect(bench.engine.health().reasons[0]).toMatch(/not answered step 0 within 500 ms/);
    const queued = bench.submit({ id: 'b' });
    expect(() => bench.engine.step()).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' }),
    );
    for (const reading of [waiting, queued.result()]) {
      expect(await rejection(reading)).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    }
    expect(bench.engine.health()).toMatchObject({ healthy: false, state: 'broken' });
    expect(() => bench.submit()).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' }),
    );
    bench.engine.dispose();
    expect(bench.engine.health().state).toBe('disposed');
    expect(bench.executor.disposals).toBe(1);
  });

  it('its late answer is ignored', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 500, pipelineDepth: 2 }, true);
    const stream = bench.submit();
    bench.steps();
    bench.submit().abort();
    bench.time += 501;
    expect(() => bench.engine.step()).toThrow();
    await bench.executor.deliver();
    await bench.executor.reject(mine);
    expect(await rejection(stream.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    expect(stream.numOutputTokens).toBe(0);
    expect(bench.engine.stats()).toMatchObject({
      lateAnswers: 2,
      steps: 0,
      stepsInFlight: 0,
      streams: 0,
      abortsQueued: 0,
    });
    expect(() => bench.engine.step()).toThrow();
  });

  it('is one that does not answer the oldest step; a queue in front of it is none', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 500, pipelineDepth: 3 }, true);
    const stream = bench.submit({ maxTokens: 6 });
    for (let i = 0; i < 12 && !stream.ended; i++) {
      bench.steps();
      bench.time += 400;
      await bench.executor.deliver();
    }
    expect((await stream.result()).finishReason).toBe('length');
  });

  it('is not looked for with a timeout of 0', () => {
    const bench = new EngineBench({ executorTimeoutMs: 0 }, true);
    bench.submit();
    bench.engine.step();
    bench.time += 1e12;
    expect(bench.engine.step().state).toBe('waiting');
    expect(bench.engine.health().healthy).toBe(true);
  });

  it('is not one that has answered and was not asked', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 500 }, true);
    const stream = bench.submit({ maxTokens: 1 });
    bench.engine.step();
    await bench.executor.deliver();
    bench.time += 1000;
    expect(bench.engine.step().answered).toBe(true);
    expect(stream.ended).toBe(true);
  });
});

describe('from inside the executor', () => {
  it('requests can be submitted, and run in the next step', async () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a', maxTokens: 2 });
    const inner: Promise<unknown>[] = [];
    bench.executor.onExecute = (plan) => {
      if (plan.step < 3)
        inner.push(bench.submit({ prompt: prompt(9, plan.step + 1), maxTokens: 2 }).result());
    };
    bench.steps();
    expect(bench.executor.seen[0].ids).toEqual(['a']);
    expect(bench.executor.seen[1].ids).toEqual(['a', 'request-1']);
    expect(await Promise.all(inner)).toHaveLength(3);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it.each(['step', 'dispose'] as const)('%s is refused, and nothing comes of it', async (name) => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 3 });
    const codes: unknown[] = [];
    bench.executor.onExecute = () => {
      try {
        bench.engine[name]();
      } catch (error) {
        codes.push((error as BlockstepError).code);
      }
    };
    bench.steps();
    expect(codes).toEqual(Array(3).fill('ERR_BLOCKSTEP_REENTRANT'));
    expect((await stream.result()).tokens).toHaveLength(3);
  });

  it('everything may be paused, reset and read', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', prompt: prompt(9), maxTokens: 6 });
    bench.executor.onExecute = () => {
      const { engine } = bench;
      engine.pause('new');
      engine.resume();
      engine.resetPrefixCache();
      engine.explain('a');
      engine.health();
      engine.stats();
      engine.verify();
      engine.hold(stream.handle, 'store', 'x');
      engine.complete(stream.handle, 'store', 'x');
    };
    bench.steps();
    expect(tokensOf(await outputs(stream))).toHaveLength(6);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('a forced reset computes its own step again', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ prompt: prompt(9), maxTokens: 3 });
    let left = 2;
    bench.executor.onExecute = () => {
      if (left-- > 0) bench.engine.resetPrefixCache({ resetRunning: true });
    };
    bench.steps();
    expect([...(await stream.result()).tokens]).toEqual([900, 1000, 1100]);
    expect(leftovers(bench.engine)).toEqual([]);
  });
});
