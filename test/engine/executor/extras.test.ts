// Data that an executor attaches to tokens reaches the reader with exactly these tokens.
import { describe, expect, it } from 'vitest';
import type { EngineOptions, ExecutorPlan, ExecutorResult, RequestStream } from '../../../src/index.js';
import { hostile, throwingProxy } from '../../misuse/bad-values.js';
import { answerOf, EngineBench, outputs, prompt } from '../../support/engine-bench.js';

/** With every token comes what it is, in words. */
function told(answer: ExecutorResult): ExecutorResult {
  const total = answer.counts.reduce((sum, count) => sum + count, 0);
  return { ...answer, extras: Array.from(answer.tokens.subarray(0, total), (token) => `of ${token}`) };
}

function benchOf(answer: (plan: ExecutorPlan) => unknown, options: Partial<EngineOptions> = {}): EngineBench {
  const bench = new EngineBench(options);
  bench.executor.answer = answer;
  return bench;
}

/** Every token with its extra, as its reader got it, and as the result has it. */
async function pairs(stream: RequestStream): Promise<{ read: unknown[]; result: unknown[] }> {
  const read = (await outputs(stream)).flatMap(({ tokens, extras }) =>
    Array.from(tokens, (token, i) => [token, extras === null ? null : extras[i]]),
  );
  const { tokens, extras } = await stream.result();
  return { read, result: Array.from(tokens, (token, i) => [token, extras === null ? null : extras[i]]) };
}

const good = (token: number) => [token, `of ${token}`];

// Pinned by: `parseExtras`, `mend` (answer.ts), `append`, `#readOutput` (stream-buffer.ts).
describe('what comes with tokens', () => {
  it('reaches the reader with them, and stands in the result', async () => {
    const bench = benchOf((plan) => told(answerOf(plan)));
    const streams = [bench.submit({ maxTokens: 3 }), bench.submit({ prompt: prompt(9, 1), maxTokens: 2 })];
    bench.steps();
    const [a, b] = await Promise.all(streams.map(pairs));
    expect(a).toEqual({ read: [600, 700, 800].map(good), result: [600, 700, 800].map(good) });
    expect(b).toEqual({ read: [900, 1000].map(good), result: [900, 1000].map(good) });
  });

  it('is read step by step as the tokens are, and is empty where an end has none', async () => {
    const bench = benchOf((plan) => told(answerOf(plan)));
    const stream = bench.submit({ maxTokens: 9 });
    const reader = stream[Symbol.asyncIterator]();
    bench.engine.step();
    expect((await reader.next()).value).toMatchObject({ extras: ['of 600'] });
    bench.engine.step();
    bench.engine.step();
    expect((await reader.next()).value).toMatchObject({ extras: ['of 700', 'of 800'] });
    stream.stop();
    expect((await reader.next()).value).toMatchObject({ extras: [], finishReason: 'stop' });
    expect((await stream.result()).extras).toEqual(['of 600', 'of 700', 'of 800']);
  });

  it('with drafts: behind a stop among the accepted ones nothing is delivered, of either', async () => {
    const answer = ({
      numRequests,
      maxOutputTokens,
      numComputedTokens,
      numScheduledTokens,
    }: ExecutorPlan) => {
      const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests));
      const tokens: number[] = [];
      for (let i = 0; i < numRequests; i++) {
        const first = numComputedTokens[i] + numScheduledTokens[i] - counts[i];
        for (let j = 0; j < counts[i]; j++) tokens.push(100 * (first + j) + i);
      }
      const drafts = { tokens: new Int32Array(3 * numRequests), counts: new Int32Array(numRequests).fill(3) };
      return { ...told({ tokens: Int32Array.from(tokens), counts }), drafts };
    };
    const bench = benchOf(answer, { numSpeculativeTokens: 3 });
    const a = bench.submit({ prompt: prompt(6), maxTokens: 9, stopTokenIds: [700] });
    const b = bench.submit({ prompt: prompt(6, 1), maxTokens: 6 });
    bench.steps();
    const [one, two] = await Promise.all([a, b].map(pairs));
    expect(one.result).toEqual([500, 600, 700].map(good));
    expect(one.read).toEqual(one.result);
    expect(two.result.length).toBe(6);
    expect(two.result).toEqual(two.result.map((pair) => good((pair as [number])[0])));
  });

  it.each<[string, (plan: ExecutorPlan) => { tokens: number[]; counts: number[]; errors?: number[] }]>([
    ['too many tokens', () => ({ tokens: [1, 2, 3, 40, 50], counts: [3, 1, 1] })],
    ['no token', () => ({ tokens: [40, 50], counts: [0, 1, 1] })],
    ['a token below 0', () => ({ tokens: [-1, 40, 50], counts: [1, 1, 1] })],
    ['an error, with tokens', () => ({ tokens: [1, 40, 50, -1], counts: [1, 1, 2], errors: [1, 0, 0] })],
  ])('moves with the tokens where a row in front is wrong: %s', async (_, wrong) => {
    let step = 0;
    const bench = benchOf((plan) => {
      if (step++ > 0) return told(answerOf(plan));
      const { tokens, counts, errors } = wrong(plan);
      const answer = { tokens: Int32Array.from(tokens), counts: Int32Array.from(counts) };
      return told(errors === undefined ? answer : { ...answer, errors: Uint8Array.from(errors) });
    });
    const [a, b, c] = ['a', 'b', 'c'].map((id, i) =>
      bench.submit({ id, prompt: prompt(6, i), maxTokens: 2 }),
    );
    bench.steps();
    await expect(a.result()).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
    expect((await pairs(b)).read).toEqual([good(40), good(700)]);
    if ((await Promise.allSettled([c.result()]))[0].status === 'fulfilled')
      expect((await pairs(c)).read).toEqual([good(50), good(700)]);
  });

  it('is undefined for the tokens of steps that brought nothing with them, before or between', async () => {
    let step = 0;
    const bench = benchOf((plan) => (step++ % 2 === 1 ? told(answerOf(plan)) : answerOf(plan)));
    const stream = bench.submit({ maxTokens: 4 });
    bench.steps();
    expect((await pairs(stream)).result).toEqual([[600, undefined], good(700), [800, undefined], good(900)]);
  });

  it('of a session is that of all its answers', async () => {
    const bench = benchOf((plan) => told(answerOf(plan)));
    const stream = bench.submit({ maxTokens: 2, resumable: true });
    bench.steps();
    stream.addChunk({ prompt: prompt(2, 1) });
    stream.endInput();
    bench.steps();
    const read = await outputs(stream);
    expect(read.filter(({ continues }) => continues).map(({ extras }) => extras)).toEqual([
      ['of 600', 'of 700'],
    ]);
    expect((await stream.result()).extras).toEqual(['of 600', 'of 700', 'of 900', 'of 1000']);
  });

  it.each<[string, unknown]>([
    ['too few', []],
    ['null', null],
    ['a number', 1],
    ['a string', 'ab'],
    ['an object', { length: 9 }],
    ['a typed array', new Float64Array(9)],
    ['an array that throws', Object.defineProperty(Array(9), 0, { get: hostile })],
    ['a proxy that throws', throwingProxy([])],
  ])('is dropped and counted where it is %s; the tokens are good', async (_, extras) => {
    const bench = benchOf((plan) => ({ ...answerOf(plan), extras }));
    const stream = bench.submit({ maxTokens: 2 });
    bench.steps();
    expect(await stream.result()).toMatchObject({ tokens: Int32Array.of(600, 700), extras: null });
    expect(bench.engine.stats()).toMatchObject({ wrongAnswers: 2, failedSteps: 0, failedRequests: 0 });
  });

  it('is a copy: what the executor does with its array later changes nothing', async () => {
    const own: unknown[] = [];
    const bench = benchOf((plan) => {
      own[0] = plan.step;
      return { ...answerOf(plan), extras: own };
    });
    const stream = bench.submit({ maxTokens: 2 });
    bench.steps();
    own[0] = 'late';
    expect((await stream.result()).extras).toEqual([0, 1]);
  });
});
