// A client stops its request: it ends with reason `stop` and delivers nothing behind that point.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it } from 'vitest';
import type { StopReason } from '../../../src/engine/outputs/outputs.js';
import type { BlockstepError } from '../../../src/index.js';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import { EngineBench, leftovers, outputs, prompt, rejection, tokensOf } from '../../support/engine-bench.js';

const BAD_ARG = expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_ARG' }) as BlockstepError;

// Pinned by: `stopStream` (abort.ts), `stop` and `#stopReason` (stream-buffer.ts).
describe('a request that its client stops', () => {
  it.each<[StopReason | undefined, StopReason | null]>([
    ['\n\n', '\n\n'],
    ['', ''],
    [7, 7],
    [undefined, null],
  ])('with %j: what has come is delivered, then stop with that reason', async (given, told) => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 9 });
    for (let i = 0; i < 3; i++) bench.engine.step();
    stream.stop(given);
    expect(stream.ended).toBe(true);
    expect(bench.engine.stats().streams).toBe(0);
    const all = await outputs(stream);
    expect(tokensOf(all)).toEqual([600, 700, 800]);
    expect(all.at(-1)).toMatchObject({ finishReason: 'stop', stopReason: told, continues: false });
    expect(await stream.result()).toMatchObject({ finishReason: 'stop', stopReason: told });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('tells a reader that waits, and its blocks go back before the next step, which another gets', () => {
    const bench = new EngineBench({ numBlocks: 5, maxModelLen: 16, maxNumSeqs: 2 });
    const stream = bench.submit({ id: 'a', prompt: prompt(11), maxTokens: 4 });
    bench.engine.step();
    bench.submit({ id: 'b', prompt: prompt(11, 1), maxTokens: 1 });
    bench.engine.step();
    expect(bench.executor.seen.at(-1)?.ids).toEqual(['a']);
    stream.stop();
    expect(bench.engine.explain('a')).toContain('stopped, its blocks are freed before the next step');
    bench.engine.step();
    expect(bench.executor.seen.at(-1)).toMatchObject({ ids: ['b'], finished: ['a'] });
  });

  it('while its step runs: the tokens of that step are dropped, and what it published stays cached', async () => {
    const bench = new EngineBench({ pipelineDepth: 2 }, true);
    const stream = bench.submit({ prompt: prompt(9), maxTokens: 9 });
    bench.steps();
    await bench.executor.deliver();
    bench.steps();
    const reading = outputs(stream);
    stream.stop('end');
    await bench.finish();
    expect(tokensOf(await reading)).toEqual([900]);
    const again = bench.submit({ prompt: prompt(9), maxTokens: 1 });
    await bench.finish();
    expect((await again.result()).numCachedTokens).toBe(8);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('before it was ever scheduled: it ends, and its id is free', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a' });
    stream.stop('x');
    expect(await stream.result()).toMatchObject({ tokens: new Int32Array(0), finishReason: 'stop' });
    const again = bench.submit({ id: 'a', maxTokens: 1 });
    bench.steps();
    expect((await again.result()).finishReason).toBe('length');
    expect(bench.engine.stats().stopped).toBe(1);
  });

  it('is no news once it has ended, however that was', async () => {
    const bench = new EngineBench();
    const ended = bench.submit({ id: 'a', maxTokens: 1 });
    bench.steps();
    ended.stop('late');
    expect(await ended.result()).toMatchObject({ finishReason: 'length', stopReason: null });
    const aborted = bench.submit({ id: 'b' });
    aborted.abort();
    aborted.stop('late');
    expect(await aborted.result()).toMatchObject({ finishReason: 'abort', stopReason: null });
    const stopped = bench.submit({ id: 'c' });
    stopped.stop('first');
    stopped.stop('second');
    stopped.abort('third');
    expect(await stopped.result()).toMatchObject({ finishReason: 'stop', stopReason: 'first' });
    const stillborn = bench.submit({ id: 'd' }, { signal: AbortSignal.abort('never') });
    stillborn.stop();
    expect(await rejection(stillborn.result())).toBe('never');
    bench.steps();
    expect(bench.engine.stats()).toMatchObject({ stopped: 1, abortsQueued: 0 });
    bench.engine.dispose();
    ended.stop();
  });

  it('counts as stopped, also on the channel; its connector hears of an abort, as in vLLM', () => {
    const connector = new ScriptedConnector();
    const bench = new EngineBench({ connector });
    const told: unknown[] = [];
    const listener = (message: unknown) => void told.push(message);
    subscribe('blockstep:request:stop', listener);
    const [a, b] = ['a', 'b'].map((id, i) => bench.submit({ id, prompt: prompt(6, i), maxTokens: 9 }));
    bench.engine.step();
    a.stop('###');
    b.abort();
    unsubscribe('blockstep:request:stop', listener);
    bench.steps();
    expect(told).toEqual([{ id: 'a', handle: a.handle, stopReason: '###' }]);
    const { stopped, scheduler } = bench.engine.stats();
    expect({ stopped, finished: scheduler.finished }).toEqual({
      stopped: 1,
      finished: { stop: 1, length: 0, abort: 1, error: 0 },
    });
    expect(connector.calls.filter((call) => call.startsWith('finished'))).toEqual([
      'finished a abort 2',
      'finished b abort 2',
    ]);
  });

  it('with a reason that is none: refused, and it goes on', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2 });
    for (const bad of [null, true, {}, [], Number.NaN, Number.POSITIVE_INFINITY, 1n, Symbol('x')]) {
      expect(() => stream.stop(bad as never)).toThrow(BAD_ARG);
    }
    bench.steps();
    expect((await stream.result()).finishReason).toBe('length');
  });

  it('from inside the executor: the step that it computes is dropped', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 9 });
    bench.executor.onExecute = ({ step }) => (step === 2 ? stream.stop('in') : undefined);
    bench.steps();
    expect(await stream.result()).toMatchObject({ stopReason: 'in', tokens: Int32Array.of(600, 700) });
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('from inside the connector, while the update is made that brings its tokens: they are dropped', async () => {
    const connector = new ScriptedConnector();
    const bench = new EngineBench({ connector });
    const [a, b] = [1, 9].map((maxTokens, i) =>
      bench.submit({ id: 'ab'[i], prompt: prompt(6, i), maxTokens }),
    );
    connector.during = (method, request) => {
      if (method !== 'finished' || request?.id !== 'a') return;
      a.stop('a');
      b.stop('b');
    };
    bench.steps();
    expect(await b.result()).toMatchObject({ stopReason: 'b', tokens: new Int32Array(0) });
    // To the scheduler the first one had ended by itself.
    expect(await a.result()).toMatchObject({ stopReason: 'a', tokens: new Int32Array(0) });
    expect(bench.engine.stats()).toMatchObject({
      stopped: 1,
      scheduler: { finished: { stop: 1, length: 1, abort: 0, error: 0 } },
    });
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('of a session is refused while its input is open, and ends it with its last answer', async () => {
    const bench = new EngineBench();
    const session = bench.submit({ id: 's', resumable: true, maxTokens: 3 });
    bench.engine.step();
    expect(() => session.stop('x')).toThrow(/session "s" cannot be stopped while its input is open/);
    expect(() => session.stop('x')).toThrow(BAD_ARG);
    bench.steps();
    expect(() => session.stop('x')).toThrow(BAD_ARG);
    session.addChunk({ prompt: prompt(3, 1), maxTokens: 2 });
    bench.engine.step();
    session.addChunk({ prompt: prompt(3, 2), maxTokens: 5 });
    session.endInput();
    // A chunk still waits for its answer.
    expect(() => session.stop('x')).toThrow(BAD_ARG);
    bench.engine.step();
    bench.engine.step();
    session.stop('x');
    const all = await outputs(session);
    expect(all.map(({ continues, finishReason }) => [continues, finishReason])).toEqual([
      [true, 'length'],
      [true, 'length'],
      [false, 'stop'],
    ]);
    expect(all.at(-1)).toMatchObject({ stopReason: 'x' });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });
});
