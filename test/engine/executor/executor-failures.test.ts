// A step without an answer fails its requests; a wrong row fails that row alone.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import { BlockstepError, type ExecutorPlan } from '../../../src/index.js';
import { detach, throwingProxy } from '../../misuse/bad-values.js';
import { answerOf, EngineBench, leftovers, prompt, rejection, settled } from '../../support/engine-bench.js';

const mine = new Error('mine');

function getter(name: string, error: unknown = mine) {
  return (plan: ExecutorPlan) =>
    Object.defineProperty(answerOf(plan), name, {
      get: () => {
        throw error;
      },
    });
}

/** Answers that are none: the whole step fails. */
const NO_ANSWERS: Record<string, (plan: ExecutorPlan) => unknown> = {
  throws: () => {
    throw mine;
  },
  'throws undefined': () => {
    throw undefined;
  },
  'throws a proxy that throws': () => {
    throw throwingProxy({});
  },
  rejects: () => Promise.reject(mine),
  'rejects with nothing': () => Promise.reject(undefined),
  undefined: () => undefined,
  null: () => null,
  number: () => 1,
  string: () => 'tokens',
  function: () => () => answerOf,
  'no fields': () => ({}),
  'a promise of nothing': () => Promise.resolve(),
  'counts missing': (plan) => ({ tokens: answerOf(plan).tokens }),
  'tokens missing': (plan) => ({ counts: answerOf(plan).counts }),
  'plain arrays': (plan) => ({ tokens: [...answerOf(plan).tokens], counts: [...answerOf(plan).counts] }),
  'too few counts': (plan) => ({ ...answerOf(plan), counts: new Int32Array(1) }),
  'too few tokens': (plan) => ({ ...answerOf(plan), tokens: new Int32Array(1) }),
  'negative count': (plan) => ({ ...answerOf(plan), counts: Int32Array.of(-1, 1) }),
  'counts beyond all tokens': (plan) => ({ ...answerOf(plan), counts: Int32Array.of(2 ** 31 - 1, 1) }),
  'foreign arrays': (plan) => ({ ...answerOf(plan), tokens: Float64Array.of(1, 2) }),
  'unsigned counts': (plan) => ({ ...answerOf(plan), counts: Uint32Array.of(1, 1) }),
  'detached tokens': (plan) => ({ ...answerOf(plan), tokens: detach(Int32Array.of(1, 2)) }),
  'detached counts': (plan) => ({ ...answerOf(plan), counts: detach(Int32Array.of(1, 1)) }),
  'shared tokens': (plan) => ({ ...answerOf(plan), tokens: new Int32Array(new SharedArrayBuffer(8)) }),
  'errors of another type': (plan) => ({ ...answerOf(plan), errors: [0, 0] }),
  'too few errors': (plan) => ({ ...answerOf(plan), errors: new Uint8Array(1) }),
  'null errors': (plan) => ({ ...answerOf(plan), errors: null }),
  'getter of tokens throws': getter('tokens'),
  'getter of counts throws': getter('counts'),
  'getter of errors throws': getter('errors'),
  'getter of drafts throws': getter('drafts'),
  'getter of then throws': getter('then'),
  'a getter that throws undefined': getter('counts', undefined),
  'a proxy that throws': () => throwingProxy({}),
  'a thenable that throws': () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is what it is about
    then: () => {
      throw mine;
    },
  }),
  'a thenable that rejects': () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is what it is about
    then: (_: unknown, reject: (error: unknown) => void) => reject(mine),
  }),
  'a promise of a proxy that throws': () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is what it is about
    then: (resolve: (value: unknown) => void) => resolve(throwingProxy({})),
  }),
};

/**
 * Answers in which only the row of "a", the first of two, is wrong; and the error of its reader.
 */
const WRONG_ROWS: Record<string, [answer: (plan: ExecutorPlan) => unknown, message: RegExp]> = {
  failed: [
    (plan) => ({ ...answerOf(plan), errors: Uint8Array.of(7, 0) }),
    /the executor failed request "a" with error 7$/,
  ],
  'no token': [
    (plan) => ({ counts: Int32Array.of(0, 1), tokens: answerOf(plan).tokens.slice(1) }),
    /wrongly: it returned neither a token nor an error/,
  ],
  'too many tokens': [
    (plan) => ({
      counts: Int32Array.of(3, 1),
      tokens: Int32Array.of(1, 2, 3, ...answerOf(plan).tokens.slice(1)),
    }),
    /returned 3 tokens, at most 1 were expected/,
  ],
  'a negative token': [
    (plan) => ({ ...answerOf(plan), tokens: Int32Array.of(-5, answerOf(plan).tokens[1]) }),
    /returned the token -5/,
  ],
  'the largest integer': [
    (plan) => ({ ...answerOf(plan), tokens: Int32Array.of(2 ** 31 - 1, answerOf(plan).tokens[1]) }),
    /returned the token 2147483647/,
  ],
};

describe('a step without an answer', () => {
  it.each(Object.keys(NO_ANSWERS))('costs its requests and nothing else: %s', async (name) => {
    for (const pipelineDepth of [1, 2, 3] as const) {
      const bench = new EngineBench({ pipelineDepth });
      const streams = ['a', 'b'].map((id, i) => bench.submit({ id, prompt: prompt(6, i), maxTokens: 5 }));
      bench.executor.answer = NO_ANSWERS[name];
      bench.engine.step();
      await settled();
      bench.executor.answer = answerOf;
      bench.steps();
      await settled();
      bench.steps();
      for (const stream of streams) {
        const error = (await rejection(stream.result())) as BlockstepError;
        expect(error).toBeInstanceOf(BlockstepError);
        expect(error.code).toBe('ERR_BLOCKSTEP_EXECUTOR');
        expect(error.message).toMatch(/step of request "[ab]" failed: ./);
        expect(error.message.length).toBeLessThan(500);
        if (/throws$|rejects$/.test(name) && !name.includes('proxy')) expect(error.cause).toBe(mine);
      }
      const { steps, failedSteps, failedRequests } = bench.engine.stats();
      expect([failedSteps, failedRequests]).toEqual([1, 2]);
      expect(steps).toBeGreaterThanOrEqual(1);
      expect(bench.engine.health().healthy).toBe(true);
      const next = bench.submit({ id: 'next', maxTokens: 2 });
      bench.steps();
      expect([...(await next.result()).tokens]).toEqual([600, 700]);
      expect(leftovers(bench.engine)).toEqual([]);
    }
  });

  it.each([
    ['negative count', /counts\[0\] must be at least 0, got -1$/],
    ['too few counts', /counts must be at least 2 entries, one for each of the plan, got 1 entries$/],
    ['too few tokens', /tokens must be at least 2 ids, the sum of counts, got 1 ids$/],
    ['foreign arrays', /tokens must be an Int32Array, got an object \(Float64Array\)$/],
    ['undefined', /the answer must be an object with tokens and counts, got undefined$/],
  ])('says what was wrong with it: %s', async (name, message) => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a' });
    bench.submit({ id: 'b', prompt: prompt(6, 1) });
    bench.executor.answer = NO_ANSWERS[name];
    bench.engine.step();
    expect(((await rejection(stream.result())) as Error).message).toMatch(message);
  });

  it('delivers what came before, then fails', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 9 });
    bench.engine.step();
    bench.engine.step();
    bench.executor.answer = () => Promise.reject(mine);
    bench.engine.step();
    await settled();
    bench.steps();
    const iterator = stream[Symbol.asyncIterator]();
    expect((await iterator.next()).value?.tokens).toEqual(Int32Array.of(600, 700));
    expect(await rejection(iterator.next())).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR', cause: mine });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });

  it('at depth 3 drops what later steps bring for its requests, and keeps the others', async () => {
    const bench = new EngineBench({ pipelineDepth: 3, maxNumBatchedTokens: 8 }, true);
    const first = bench.submit({ id: 'a', prompt: prompt(8), maxTokens: 9 });
    const second = bench.submit({ id: 'b', prompt: prompt(7, 1), maxTokens: 3 });
    bench.steps();
    expect(bench.executor.seen.map(({ ids }) => ids)).toEqual([['a'], ['a', 'b'], ['a', 'b']]);
    await bench.executor.reject(mine);
    await bench.finish();
    expect(await rejection(first.result())).toMatchObject({ cause: mine });
    expect((await second.result()).tokens).toHaveLength(3);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('of which nobody is left costs nothing', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit();
    bench.engine.step();
    stream.abort();
    await bench.executor.reject(mine);
    await bench.finish();
    expect((await stream.result()).finishReason).toBe('abort');
    expect(bench.engine.stats()).toMatchObject({ failedSteps: 1, failedRequests: 0 });
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('a wrong row', () => {
  it.each(Object.keys(WRONG_ROWS))('costs its request and no other: %s', async (name) => {
    const [answer, message] = WRONG_ROWS[name];
    for (const pipelineDepth of [1, 2, 3] as const) {
      const bench = new EngineBench({ pipelineDepth });
      const bad = bench.submit({ id: 'a', maxTokens: 4 });
      const good = bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 4 });
      bench.executor.answer = answer;
      bench.engine.step();
      bench.executor.answer = answerOf;
      bench.steps();
      expect(await rejection(bad.result())).toMatchObject({
        code: 'ERR_BLOCKSTEP_EXECUTOR',
        message: expect.stringMatching(message),
      });
      expect([...(await good.result()).tokens]).toEqual([600, 700, 800, 900]);
      expect(bench.engine.stats()).toMatchObject({ failedSteps: 0, failedRequests: 1 });
      expect(leftovers(bench.engine)).toEqual([]);
    }
  });

  it('whose token is -1 is told what -1 in inputIds stands for', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 1 });
    bench.executor.answer = () => ({ tokens: Int32Array.of(-1), counts: Int32Array.of(1) });
    bench.engine.step();
    const { message } = (await rejection(stream.result())) as Error;
    expect(message).toMatch(/a token that a step in flight makes: use InputBatch/);
  });

  it('in each of several rows costs each of them, and the others keep their own tokens', async () => {
    const bench = new EngineBench();
    const streams = ['a', 'b', 'c', 'd'].map((id, i) =>
      bench.submit({ id, prompt: prompt(6, i), maxTokens: 1 }),
    );
    bench.executor.answer = () => ({
      counts: Int32Array.of(2, 1, 0, 1),
      tokens: Int32Array.of(-1, -1, 11, 13),
      errors: Uint8Array.of(0, 0, 0, 0),
    });
    bench.steps();
    const ends = await Promise.allSettled(streams.map((stream) => stream.result()));
    expect(ends.map((end) => (end.status === 'fulfilled' ? [...end.value.tokens] : 'failed'))).toEqual([
      'failed',
      [11],
      'failed',
      [13],
    ]);
    expect(bench.engine.stats().wrongAnswers).toBe(2);
  });

  it('of a request that was aborted meanwhile costs nothing, the prefix cache neither', async () => {
    const bench = new EngineBench({}, true);
    bench.submit({ id: 'cached', prompt: prompt(9, 5), maxTokens: 1 });
    await bench.finish();
    const aborted = bench.submit({ id: 'a', maxTokens: 4 });
    const good = bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 1 });
    bench.executor.answer = () => ({ counts: Int32Array.of(0, 1), tokens: Int32Array.of(5) });
    bench.engine.step();
    aborted.abort();
    await bench.finish();
    expect([...(await good.result()).tokens]).toEqual([5]);
    expect(bench.engine.stats()).toMatchObject({ failedRequests: 0, wrongAnswers: 0 });
    bench.executor.answer = answerOf;
    const again = bench.submit({ prompt: prompt(9, 5), maxTokens: 1 });
    await bench.finish();
    expect((await again.result()).numCachedTokens).toBe(8);
  });

  it("of a request that is computed again anyway is nobody's fault", async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    bench.executor.answer = () => ({ counts: Int32Array.of(0), tokens: new Int32Array(0) });
    bench.engine.step();
    bench.engine.resetPrefixCache({ resetRunning: true });
    bench.executor.answer = answerOf;
    await bench.finish();
    expect([...(await stream.result()).tokens]).toEqual([900, 1000]);
    expect(bench.engine.stats()).toMatchObject({ wrongAnswers: 0, failedRequests: 0 });
  });

  it('is told to whoever listens', () => {
    const heard: unknown[] = [];
    const listener = (message: unknown) => heard.push(message);
    subscribe('blockstep:engine:wrong-answer', listener);
    try {
      const bench = new EngineBench();
      bench.submit({ id: 'a' });
      bench.executor.answer = () => ({ counts: Int32Array.of(9), tokens: new Int32Array(9) });
      bench.engine.step();
      bench.submit({ id: 'b' });
      bench.executor.answer = () => 5;
      bench.engine.step();
    } finally {
      unsubscribe('blockstep:engine:wrong-answer', listener);
    }
    expect(heard).toEqual([
      { step: 0, detail: 'request "a": it returned 9 tokens, at most 1 were expected' },
      { step: 1, detail: expect.stringContaining('the answer must be an object') },
    ]);
  });

  it('arrays may be longer than what they hold', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2 });
    bench.executor.answer = (plan) => ({
      counts: Int32Array.of(...answerOf(plan).counts, -1, 99),
      tokens: Int32Array.of(...answerOf(plan).tokens, -1, -1),
      errors: Uint8Array.of(0, 1, 1),
    });
    bench.steps();
    expect([...(await stream.result()).tokens]).toEqual([600, 700]);
    expect(bench.engine.stats().wrongAnswers).toBe(0);
  });
});
