// A failing request of a batch, a batch that is left early, bad arguments of a batch.
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { GenerateFailure } from '../../../src/engine/generate-options.js';
import type { BlockstepError, RequestResult } from '../../../src/index.js';
import { answerOf, EngineBench, leftovers, prompt, rejection } from '../../support/engine-bench.js';
import { codeOf, rested, said, textOf, turn } from './generate-support.js';

describe('a request of a batch that fails', () => {
  it('is in the results with its error, and loses no other', async () => {
    const bench = new EngineBench();
    bench.executor.answer = (plan) => {
      const answer = answerOf(plan);
      plan.requests.slice(0, plan.numRequests).forEach(({ id }, i) => {
        if (id === 'bad') answer.errors[i] = 1;
      });
      return answer;
    };
    bench.submit({ id: 'taken', maxTokens: 30 });
    const results = await bench.engine.generate(
      [
        prompt(3),
        prompt(0),
        { prompt: prompt(4), id: 'bad' },
        prompt(64),
        { prompt: prompt(4), id: 'taken' },
        'text' as never,
        { prompt: prompt(4), resumable: true },
        prompt(5),
      ],
      { maxTokens: 2 },
    );
    expect(results.map(({ finishReason }) => finishReason)).toEqual([
      'length',
      ...Array<string>(6).fill('error'),
      'length',
    ]);
    expect(results.slice(1, 7).map(codeOf)).toEqual([
      'ERR_BLOCKSTEP_BAD_ARG',
      'ERR_BLOCKSTEP_EXECUTOR',
      'ERR_BLOCKSTEP_UNFIT',
      'ERR_BLOCKSTEP_DUPLICATE_ID',
      'ERR_BLOCKSTEP_BAD_ARG',
      'ERR_BLOCKSTEP_BAD_ARG',
    ]);
    expect(results.map(({ id }) => id).slice(1, 4)).toEqual([null, 'bad', null]);
    expect(textOf(results[1])).toMatch(/^prompts\[1\]: prompt must be/);
    expect(textOf(results[6])).toMatch(/^prompts\[6\]: resumable must be/);
    expect(textOf(results[7])).toEqual(said(5, 2));
  });

  it('gives the rest of the process its turns, however many do', async () => {
    const bench = new EngineBench();
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const all = Array.from({ length: 2000 }, () => prompt(0));
    const results = await bench.engine.generate(all, { maxTokens: 2 });
    isDone = true;
    expect(results.map(codeOf)).toEqual(Array(2000).fill('ERR_BLOCKSTEP_BAD_ARG'));
    expect(turns).toBeGreaterThanOrEqual(7);
  });

  it('says where the batch was begun', async () => {
    const bench = new EngineBench();
    bench.executor.answer = () => {
      throw new Error('mine');
    };
    const beginBatch = () => bench.engine.generate([prompt(3)], { maxTokens: 2 });
    const [result] = await beginBatch();
    const { stack } = (result as GenerateFailure).error as Error;
    expect(stack).toMatch(/\n {2}submitted\n {4}at beginBatch .*generate-ends\.test\.ts/);
  });

  it('ends the batch with onError throw: the others are aborted', async () => {
    const bench = new EngineBench();
    let returned = 0;
    function* prompts() {
      try {
        for (let i = 0; ; i++) yield i === 20 ? prompt(0) : prompt(3);
      } finally {
        returned++;
      }
    }
    const error = await rejection(bench.engine.generate(prompts(), { maxTokens: 20, onError: 'throw' }));
    expect(error).toMatchObject({ code: 'ERR_BLOCKSTEP_BAD_ARG', message: /^prompts\[20\]: / });
    await rested(bench);
    expect(returned).toBe(1);
    expect(leftovers(bench.engine)).toEqual([]);
    const results: RequestResult[] = await bench.engine.generate([prompt(3)], {
      maxTokens: 1,
      onError: 'throw',
    });
    expect([...results[0].tokens]).toEqual([300]);
  });

  it('because somebody aborted it, says abort, or with a reason that', async () => {
    const bench = new EngineBench();
    bench.executor.onExecute = () => {
      bench.executor.onExecute = () => {};
      bench.engine.abort('a');
      bench.engine.abort('b', 'mine');
    };
    const results = await bench.engine.generate(
      ['a', 'b', 'c'].map((id) => ({ id, prompt: prompt(3) })),
      { maxTokens: 2 },
    );
    expect(results).toMatchObject([
      { id: 'a', finishReason: 'abort' },
      { id: 'b', finishReason: 'error', error: 'mine' },
      { id: 'c', finishReason: 'length' },
    ]);
  });
});

describe('a batch ends before its time', () => {
  const endless = function* (state: { returned: number }) {
    try {
      for (;;) yield prompt(3);
    } finally {
      state.returned++;
    }
  };

  it('with the reason of its signal, aborted before or meanwhile', async () => {
    const bench = new EngineBench();
    const reason = new Error('mine');
    const state = { returned: 0 };
    const before = bench.engine.generate(endless(state), { maxTokens: 2, signal: AbortSignal.abort(reason) });
    expect(await rejection(before)).toBe(reason);
    const controller = new AbortController();
    const { signal } = controller;
    let done = 0;
    const onProgress = () => ++done === 30 && controller.abort(reason);
    expect(await rejection(bench.engine.generate(endless(state), { maxTokens: 2, signal, onProgress }))).toBe(
      reason,
    );
    expect(done).toBe(30);
    const unused = new AbortController();
    await bench.engine.generate([prompt(3)], { maxTokens: 2, signal: unused.signal });
    expect(getEventListeners(unused.signal, 'abort')).toEqual([]);
    await rested(bench);
    expect(state.returned).toBe(1);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('also while its prompts hang, or its executor', async () => {
    for (const hangs of ['prompts', 'executor']) {
      const bench = new EngineBench();
      if (hangs === 'executor') bench.executor.answer = () => new Promise(() => {});
      const controller = new AbortController();
      async function* prompts() {
        yield prompt(3);
        if (hangs === 'prompts') await new Promise(() => {});
      }
      const batch = bench.engine.generate(prompts(), { maxTokens: 2, signal: controller.signal });
      for (let i = 0; i < 5; i++) await turn();
      controller.abort('mine');
      expect(await rejection(batch)).toBe('mine');
      expect(bench.engine.isRunning).toBe(false);
      expect(bench.engine.stats().streams).toBe(0);
    }
  });

  it('with what its prompts throw, or its onProgress', async () => {
    const bench = new EngineBench();
    const mine = new Error('mine');
    const hostile = () => {
      throw mine;
    };
    function* prompts() {
      for (let i = 0; i < 5; i++) yield prompt(3);
      hostile();
    }
    expect(await rejection(bench.engine.generate(prompts(), { maxTokens: 9 }))).toBe(mine);
    const state = { returned: 0 };
    const batch = bench.engine.generate(endless(state), { maxTokens: 2, onProgress: hostile });
    expect(await rejection(batch)).toBe(mine);
    const nasty = { [Symbol.iterator]: () => ({ next: () => ({ value: 'x' }), return: hostile }) };
    const nastily = bench.engine.generate(nasty as never, { onProgress: hostile });
    expect(await rejection(nastily)).toBe(mine);
    expect(await rejection(bench.engine.generate({ [Symbol.iterator]: hostile } as never))).toBe(mine);
    await rested(bench);
    expect([state.returned, bench.engine.isRunning]).toEqual([1, false]);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('never when the engine is shut down or disposed: what was not done has that error', async () => {
    for (const how of ['shutdown', 'dispose'] as const) {
      const bench = new EngineBench();
      let done = 0;
      const onProgress = () => ++done === 10 && setImmediate(() => void bench.engine[how]());
      const prompts = Array.from({ length: 600 }, () => prompt(3));
      const results = await bench.engine.generate(prompts, { maxTokens: 4, onProgress });
      expect(results).toHaveLength(600);
      expect(done).toBe(600);
      const good = results.filter(({ finishReason }) => finishReason === 'length').length;
      expect(good).toBeGreaterThanOrEqual(10);
      expect(good).toBeLessThan(100);
      const code = how === 'shutdown' ? 'ERR_BLOCKSTEP_SHUTDOWN' : 'ERR_BLOCKSTEP_DISPOSED';
      expect(codeOf(results[599])).toBe(code);
      expect(await rejection(bench.engine.generate([prompt(3)]))).toMatchObject({ code });
    }
  });
});

describe('bad arguments of a batch', () => {
  it('are refused before anything begins', async () => {
    const bench = new EngineBench();
    const refused = async (prompts: unknown, options?: unknown) => {
      const error = await rejection(bench.engine.generate(prompts as never, options as never));
      expect((error as BlockstepError).code).toBe('ERR_BLOCKSTEP_BAD_ARG');
      return (error as BlockstepError).message;
    };
    const expected =
      'prompts must be an array, iterable or async iterable of prompts; one prompt is [prompt], got ';
    for (const prompts of [undefined, null, 7, 'text', {}, prompt(3)])
      expect(await refused(prompts)).toMatch(expected);
    for (const options of [null, 7, 'text']) await refused([], options);
    expect(await refused([], { onProgres: () => {} })).toBe(
      'the options of generate must have known names only, got "onProgres": did you mean onProgress?',
    );
    expect(await refused([], { temperature: 1 })).toMatch(/it belongs in params/);
    expect(await refused([], { onError: 'ignore' })).toMatch(
      /onError must be 'keep' or 'throw', got "ignore"/,
    );
    expect(await refused([], { onProgress: true })).toMatch(/onProgress must be a function, got true/);
    await refused([], { signal: {} });
    expect([bench.engine.isRunning, bench.engine.stats().streams]).toEqual([false, 0]);
    // The tokens of one prompt, where a list of prompts was meant.
    const [result] = await bench.engine.generate([1, 2, 3] as never, { maxTokens: 1 });
    expect(textOf(result)).toMatch(/^prompts\[0\]: a prompt must be token ids, .*, got 1$/);
  });
});
