// Iterators, results and ids; the buffer for a slow reader.
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { RequestOutput } from '../../../src/index.js';
import {
  answerOf,
  EngineBench,
  leftovers,
  outputs,
  prompt,
  settled,
  tokensOf,
} from '../../support/engine-bench.js';

describe('a reader', () => {
  it('that keeps up gets every step by itself, the last one with the reason', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit({ maxTokens: 3 });
    const all: RequestOutput[] = [];
    const reading = (async () => {
      for await (const output of stream) all.push(output);
    })();
    await bench.finish();
    await reading;
    expect(
      all.map(({ tokens, numOutputTokens, finishReason }) => [[...tokens], numOutputTokens, finishReason]),
    ).toEqual([
      [[600], 1, null],
      [[700], 2, null],
      [[800], 3, 'length'],
    ]);
  });

  it('that comes late and keeps up from then on is woken by every step, and by no other', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 40 });
    for (let i = 0; i < 5; i++) bench.engine.step();
    const iterator = stream[Symbol.asyncIterator]();
    expect((await iterator.next()).value?.numTokens).toBe(5);
    for (let i = 6; i < 9; i++) {
      const next = iterator.next();
      bench.engine.step();
      expect((await next).value).toMatchObject({ numOutputTokens: i, numTokens: 1 });
    }
    bench.engine.step();
    expect(bench.engine.stats().wakes).toBe(3);
    bench.engine.dispose();
  });

  it('gets the extras that were beside its tokens when they came', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 9 });
    const iterator = stream[Symbol.asyncIterator]();
    const read: RequestOutput[] = [];
    for (const extras of [undefined, ['x'], undefined, undefined]) {
      bench.executor.answer = (plan) => ({ ...answerOf(plan), ...(extras && { extras }) });
      const next = iterator.next();
      bench.engine.step();
      read.push((await next).value as RequestOutput);
    }
    expect(read.map(({ extras }) => extras)).toEqual([null, ['x'], [undefined], [undefined]]);
    bench.engine.abort(stream.id);
    expect((await stream.result()).extras).toEqual([undefined, 'x', undefined, undefined]);
  });

  it('gets outputs whose arrays are made once, and that are plain data by toJSON', async () => {
    const bench = new EngineBench();
    bench.executor.answer = (plan) => ({ ...answerOf(plan), extras: ['x'] });
    const stream = bench.submit({ maxTokens: 4 });
    const iterator = stream[Symbol.asyncIterator]();
    bench.engine.step();
    const { value } = await iterator.next();
    const output = value as RequestOutput;
    bench.engine.step();
    expect([output.numTokens, output.tokenAt(0)]).toEqual([1, 600]);
    for (const wrong of [1, -1, 0.5])
      expect(() => output.tokenAt(wrong)).toThrow(/index must be an integer from 0 to 0/);
    const { tokens, extras } = output;
    expect([output.tokens === tokens, output.extras === extras]).toEqual([true, true]);
    tokens[0] = 9;
    const rest = { numOutputTokens: 1, finishReason: null, continues: false, stopReason: null };
    expect({ ...output.toJSON() }).toEqual({ tokens: Int32Array.of(9), extras: ['x'], ...rest });
    expect(JSON.parse(JSON.stringify(output))).toEqual({ tokens: { 0: 9 }, extras: ['x'], ...rest });
    expect(inspect(output)).toMatch(/tokens: Int32Array\(1\) \[ 9 \],\s+extras: \[ 'x' \]/);
    expect(output.tokenAt(0)).toBe(600);
    bench.engine.dispose();
  });

  it('that is slow gets all that has come as one chunk, and nothing is lost', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 40 });
    const iterator = stream[Symbol.asyncIterator]();
    bench.engine.step();
    bench.engine.step();
    expect((await iterator.next()).value?.tokens).toEqual(Int32Array.of(600, 700));
    for (let i = 0; i < 30; i++) bench.engine.step();
    expect(bench.engine.stats().bufferedTokens).toBe(30);
    expect((await iterator.next()).value?.tokens).toHaveLength(30);
    bench.steps();
    expect((await iterator.next()).value).toMatchObject({ numOutputTokens: 40, finishReason: 'length' });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(tokensOf(await outputs(stream))).toEqual([]);
    expect([...(await stream.result()).tokens]).toEqual(Array.from({ length: 40 }, (_, i) => 600 + 100 * i));
  });

  it('that comes when all is over gets one output', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 4 });
    bench.steps();
    expect(stream.ended).toBe(true);
    const all = await outputs(stream);
    expect(all).toHaveLength(1);
    expect(all[0]).toMatchObject({ numOutputTokens: 4, finishReason: 'length', stopReason: null });
  });

  it('is told the stop token', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 40, stopTokenIds: [800] });
    const eos = bench.submit({ maxTokens: 40, eosTokenId: 700 });
    bench.steps();
    expect((await outputs(stream)).at(-1)).toMatchObject({ finishReason: 'stop', stopReason: 800 });
    expect(await stream.result()).toMatchObject({ finishReason: 'stop', stopReason: 800 });
    expect(await eos.result()).toMatchObject({ finishReason: 'stop', stopReason: null });
  });

  it('is woken at most once a step, and only when it waits', async () => {
    const bench = new EngineBench({ numSpeculativeTokens: 3, pipelineDepth: 1 });
    bench.executor.answer = (plan) => {
      // All drafts are right, so that a step generates four tokens.
      const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
      const total = counts.reduce((sum, count) => sum + count, 0);
      const drafts = { counts: new Int32Array(plan.numRequests).fill(3), tokens: new Int32Array(9).fill(5) };
      return { counts, tokens: new Int32Array(total).fill(5), drafts };
    };
    const stream = bench.submit({ maxTokens: 30 });
    const iterator = stream[Symbol.asyncIterator]();
    bench.engine.step();
    bench.engine.step();
    expect(bench.engine.stats().wakes).toBe(0);
    expect((await iterator.next()).value?.tokens).toHaveLength(5);
    const next = iterator.next();
    expect(bench.engine.stats()).toMatchObject({ readersWaiting: 1, bufferedTokens: 0 });
    bench.engine.step();
    expect((await next).value?.tokens).toHaveLength(4);
    expect(bench.engine.stats()).toMatchObject({ wakes: 1, readersWaiting: 0 });
    bench.engine.step();
    expect(bench.engine.stats()).toMatchObject({ wakes: 1, bufferedTokens: 4 });
  });

  it('owns what it gets', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 4 });
    const iterator = stream[Symbol.asyncIterator]();
    for (let i = 0; i < 4; i++) {
      bench.engine.step();
      const { tokens } = (await iterator.next()).value!;
      tokens.fill(-1);
      structuredClone(tokens.buffer, { transfer: [tokens.buffer as ArrayBuffer] });
    }
    expect([...(await stream.result()).tokens]).toEqual([600, 700, 800, 900]);
  });

  it('cannot change what others are told by the result', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2 });
    const first = stream.result();
    bench.steps();
    expect(stream.result()).toBe(first);
    (await first).tokens.fill(0);
    expect(tokensOf(await outputs(stream))).toEqual([600, 700]);
  });
});

describe('what is kept for a reader', () => {
  it('is at most maxTokens tokens, and never more than the model allows', () => {
    const bench = new EngineBench({ maxModelLen: 64 });
    bench.submit({ maxTokens: 2 ** 30 });
    bench.submit({ maxTokens: 20 });
    bench.steps();
    const stream = bench.submit({ maxTokens: 2 ** 30 });
    for (let i = 0; i < 40; i++) bench.engine.step();
    expect(bench.engine.stats().bufferedTokens).toBe(40);
    bench.steps();
    expect(stream.numOutputTokens).toBe(58);
  });

  it('does not keep an abandoned stream alive for ever: its request runs to its end', () => {
    const bench = new EngineBench();
    for (let i = 0; i < 20; i++) bench.submit({ id: `r${i}`, prompt: prompt(5, i), maxTokens: 9 });
    expect(bench.steps()).toBe('idle');
    expect(bench.engine.stats()).toMatchObject({ streams: 0, bufferedTokens: 0 });
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('stalls nobody else', async () => {
    const bench = new EngineBench();
    bench.submit({ id: 'slow', maxTokens: 20 });
    const fast = bench.submit({ id: 'fast', maxTokens: 20 });
    const reading = outputs(fast);
    for (let i = 0; i < 20; i++) {
      bench.engine.step();
      await settled();
    }
    expect(await reading).toHaveLength(20);
  });
});

describe('an iterator', () => {
  it('answers calls in their order, also those made before anything came', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 3 });
    const iterator = stream[Symbol.asyncIterator]();
    const four = [iterator.next(), iterator.next(), iterator.next(), iterator.next(), iterator.next()];
    bench.steps();
    const all = await Promise.all(four);
    expect(all.map(({ value }) => value && [...value.tokens])).toEqual([
      [600],
      [700],
      [800],
      undefined,
      undefined,
    ]);
    expect(all.map(({ done }) => done === true)).toEqual([false, false, false, true, true]);
    expect(all[2].value?.finishReason).toBe('length');
  });

  it('that is left before it was begun aborts the request', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 4 });
    const iterator = stream[Symbol.asyncIterator]();
    expect(await iterator.return()).toEqual({ done: true, value: undefined });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(await iterator.return()).toEqual({ done: true, value: undefined });
    expect((await stream.result()).finishReason).toBe('abort');
    bench.steps();
    expect(bench.executor.seen).toEqual([]);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('that is left while somebody waits tells him that it is over', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 4 });
    const iterator = stream[Symbol.asyncIterator]();
    const waiting = [iterator.next(), iterator.next()];
    await iterator.return();
    expect(await Promise.all(waiting)).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ]);
  });

  it('that is thrown into aborts the request and rejects with what was thrown', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 4 });
    bench.engine.step();
    const iterator = stream[Symbol.asyncIterator]();
    const mine = new Error('mine');
    await expect(iterator.throw(mine)).rejects.toBe(mine);
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(await stream.result()).toMatchObject({ finishReason: 'abort', tokens: Int32Array.of(600) });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('the result', () => {
  it('has everything, with the times of the engine clock', async () => {
    const bench = new EngineBench();
    bench.submit({ id: 'before', prompt: prompt(9), maxTokens: 1 });
    bench.steps();
    bench.time = 2000;
    const stream = bench.submit({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    bench.time = 2005;
    bench.executor.onExecute = () => {
      bench.time += 10;
    };
    bench.steps();
    expect(await stream.result()).toEqual({
      id: 'a',
      tokens: Int32Array.of(900, 1000),
      extras: null,
      finishReason: 'length',
      stopReason: null,
      numPromptTokens: 9,
      numCachedTokens: 8,
      numPreemptions: 0,
      transferParams: null,
      timings: { firstScheduledMs: 5, firstTokenMs: 15, endedMs: 25 },
    });
  });

  it('of a request that never ran says so', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a' });
    bench.time += 7;
    stream.abort();
    expect(await stream.result()).toMatchObject({
      tokens: new Int32Array(0),
      finishReason: 'abort',
      numCachedTokens: 0,
      timings: { firstScheduledMs: null, firstTokenMs: null, endedMs: 7 },
    });
  });

  it('may be asked for beside reading, and nobody has to ask', async () => {
    const bench = new EngineBench();
    bench.executor.answer = () => {
      throw new Error('broken');
    };
    const stream = bench.submit();
    bench.steps();
    // An end that nobody asked for is no unhandled rejection: the test runner would report it.
    await new Promise((resolve) => setImmediate(resolve));
    await expect(stream.result()).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
  });
});

describe('ids', () => {
  it('are made up where they are left out, and never collide', () => {
    const bench = new EngineBench();
    bench.submit({ id: 'request-1' });
    bench.submit({ id: 'request-3' });
    const ids = [bench.submit().id, bench.submit().id];
    expect(ids).toEqual(['request-2', 'request-4']);
    expect(bench.submit({ id: 'mine' }).id).toBe('mine');
  });

  it('are refused while an unfinished request has them', () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a' });
    expect(() => bench.submit({ id: 'a' })).toThrowError(
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_DUPLICATE_ID' }),
    );
    expect(bench.engine.stats().streams).toBe(1);
    bench.executor.answer = answerOf;
    bench.steps();
    bench.submit({ id: 'a' });
  });
});
