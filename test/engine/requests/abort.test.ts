// Aborts by signal, by leaving the stream, by id; each ends a request once.
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { ScriptedConnector } from '../../support/connector/scripted-connector.js';
import {
  EngineBench,
  leftovers,
  outputs,
  prompt,
  rejection,
  settled,
  tokensOf,
} from '../../support/engine-bench.js';
import { schedulerOf } from '../../support/scheduler-of.js';

const mine = new Error('mine');

describe('a signal', () => {
  it('aborts the request, and its reason is what every reader gets', async () => {
    const bench = new EngineBench();
    const controller = new AbortController();
    const stream = bench.submit({ maxTokens: 20 }, { signal: controller.signal });
    bench.engine.step();
    const iterator = stream[Symbol.asyncIterator]();
    await iterator.next();
    const waiting = [iterator.next(), iterator.next()];
    const result = stream.result();
    controller.abort(mine);
    expect(await rejection(waiting[0])).toBe(mine);
    expect(await waiting[1]).toEqual({ done: true, value: undefined });
    expect(await rejection(result)).toBe(mine);
    expect(await rejection(stream.result())).toBe(mine);
    expect(bench.engine.scheduler.numRunning).toBe(1);
    bench.steps();
    expect(bench.engine.stats().scheduler.finished.abort).toBe(1);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('drops what was not read, since nobody wants it', async () => {
    const bench = new EngineBench();
    const controller = new AbortController();
    const stream = bench.submit({ maxTokens: 20 }, { signal: controller.signal });
    bench.engine.step();
    controller.abort(mine);
    const iterator = stream[Symbol.asyncIterator]();
    expect(await rejection(iterator.next())).toBe(mine);
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(bench.engine.stats().bufferedTokens).toBe(0);
  });

  it.each([
    ['without a reason', undefined, { name: 'AbortError' }],
    ['with null', null, null],
    ['with a number', 7, 7],
  ])('aborted %s tells the reason that the platform gives it', async (_, reason, expected) => {
    const bench = new EngineBench();
    const controller = new AbortController();
    const stream = bench.submit({}, { signal: controller.signal });
    controller.abort(reason);
    const error = await rejection(outputs(stream));
    expect(error).toBe(controller.signal.reason);
    if (typeof expected === 'object' && expected !== null) expect(error).toMatchObject(expected);
    else expect(error).toBe(expected);
  });

  it('that is aborted already never reaches the scheduler', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a' }, { signal: AbortSignal.abort(mine) });
    expect([stream.id, stream.handle, stream.ended, stream.numOutputTokens]).toEqual(['a', -1, true, 0]);
    expect(await rejection(outputs(stream))).toBe(mine);
    expect(await rejection(stream.result())).toBe(mine);
    stream.abort();
    expect(bench.engine.scheduler.get('a')).toBeUndefined();
    expect(bench.engine.step().state).toBe('idle');
    expect(bench.engine.stats()).toMatchObject({ streams: 0, abortsQueued: 0, scheduler: { step: 0 } });
    bench.submit({ id: 'a' });
  });

  it('keeps no listener, however the request ends', async () => {
    const bench = new EngineBench({ pipelineDepth: 1 });
    const controller = new AbortController();
    const { signal } = controller;
    const count = () => getEventListeners(signal, 'abort').length;
    const submit = (id: string, maxTokens = 2) => bench.submit({ id, maxTokens }, { signal });

    submit('ends');
    expect(count()).toBe(1);
    bench.steps();
    expect(count()).toBe(0);

    submit('aborted').abort();
    expect(count()).toBe(0);
    submit('aborted by id');
    bench.engine.abort('aborted by id');
    expect(count()).toBe(0);
    for await (const _ of { [Symbol.asyncIterator]: () => left() }) break;
    async function* left() {
      const stream = submit('left', 9);
      bench.engine.step();
      for await (const output of stream) yield output;
    }
    expect(count()).toBe(0);

    submit('fails');
    bench.executor.answer = () => {
      throw mine;
    };
    bench.steps();
    expect(count()).toBe(0);

    expect(() => submit('refused', -1)).toThrow();
    expect(count()).toBe(0);
    const last = submit('by the signal itself');
    expect(count()).toBe(1);
    controller.abort();
    expect(last.ended).toBe(true);
    expect(count()).toBe(0);
    submit('too late');
    expect(count()).toBe(0);
  });

  it('shared by many requests has one listener, and aborts them all', () => {
    const bench = new EngineBench();
    const controller = new AbortController();
    const streams = Array.from({ length: 30 }, (_, i) =>
      bench.submit({ id: `r${i}`, prompt: prompt(5, i) }, { signal: controller.signal }),
    );
    bench.engine.step();
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    streams[3].abort();
    controller.abort(mine);
    expect(streams.every(({ ended }) => ended)).toBe(true);
    bench.steps();
    expect(bench.engine.stats().scheduler.finished.abort).toBe(30);
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('leaving', () => {
  it('the loop aborts the request', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 20 });
    bench.engine.step();
    for await (const { tokens } of stream) {
      expect([...tokens]).toEqual([600]);
      break;
    }
    expect(stream.ended).toBe(true);
    expect(await stream.result()).toMatchObject({ finishReason: 'abort', tokens: Int32Array.of(600) });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('the loop by a throw aborts it too, and the throw arrives', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 20 });
    bench.engine.step();
    const reading = (async () => {
      for await (const _ of stream) throw mine;
    })();
    expect(await rejection(reading)).toBe(mine);
    expect(stream.ended).toBe(true);
  });

  it('a block that uses the stream aborts it', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 20 });
    await stream[Symbol.asyncDispose]();
    expect((await stream.result()).finishReason).toBe('abort');
  });
});

describe('an abort', () => {
  it('without a reason ends the stream with what has come', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 20 });
    bench.engine.step();
    bench.engine.step();
    bench.engine.abort('a');
    const all = await outputs(stream);
    expect(tokensOf(all)).toEqual([600, 700]);
    expect(all.at(-1)?.finishReason).toBe('abort');
  });

  it('with a reason rejects with it', async () => {
    const bench = new EngineBench();
    const streams = ['a', 'b', 'c'].map((id) => bench.submit({ id }));
    bench.engine.abort('a', mine);
    streams[1].abort(mine);
    bench.engine.abortAll(mine);
    for (const stream of streams) expect(await rejection(outputs(stream))).toBe(mine);
  });

  it('only queues: the scheduler hears of it before the next schedule', () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a' });
    const other = bench.submit({ id: 'b' });
    bench.engine.abort(['a']);
    expect(bench.engine.scheduler.numWaiting).toBe(2);
    expect(bench.engine.stats()).toMatchObject({ abortsQueued: 1, streams: 1 });
    expect(bench.engine.hasWork()).toBe(true);
    bench.engine.step();
    expect(bench.executor.seen[0].ids).toEqual(['b']);
    expect(other.numOutputTokens).toBe(1);
  });

  it.each([1, 2, 3] as const)('while its last step runs is no success (depth %i)', async (pipelineDepth) => {
    const bench = new EngineBench({ pipelineDepth }, true);
    const stream = bench.submit({ id: 'a', maxTokens: 1 });
    bench.steps();
    bench.engine.abort('a');
    await bench.finish();
    expect(await stream.result()).toMatchObject({ finishReason: 'abort', tokens: new Int32Array(0) });
    expect(bench.engine.stats().scheduler).toMatchObject({
      droppedOutputs: 1,
      finished: { abort: 1, length: 0 },
    });
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('from inside the executor comes before the outputs of that very step', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 1 });
    const other = bench.submit({ id: 'b', maxTokens: 1 });
    bench.executor.onExecute = () => bench.engine.abort('a');
    bench.engine.step();
    expect((await stream.result()).finishReason).toBe('abort');
    expect((await other.result()).finishReason).toBe('length');
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('by a signal in the middle of the executor does the same', async () => {
    const bench = new EngineBench();
    const controller = new AbortController();
    const stream = bench.submit({ maxTokens: 1 }, { signal: controller.signal });
    bench.executor.onExecute = () => controller.abort(mine);
    bench.engine.step();
    expect(await rejection(stream.result())).toBe(mine);
    expect(bench.engine.stats().scheduler.droppedOutputs).toBe(1);
  });

  it('names the request that has the id now, not one that takes it later', async () => {
    const bench = new EngineBench();
    const first = bench.submit({ id: 'a', maxTokens: 1 });
    bench.engine.abort('a');
    // The id is free at once.
    const second = bench.submit({ id: 'a', maxTokens: 1 });
    bench.steps();
    expect((await first.result()).finishReason).toBe('abort');
    expect((await second.result()).finishReason).toBe('length');
  });

  it('frees an id at once, but not from inside a step', () => {
    const bench = new EngineBench();
    bench.submit({ id: 'a', maxTokens: 9 });
    let code: unknown;
    bench.executor.onExecute = () => {
      bench.engine.abort('a');
      try {
        bench.submit({ id: 'a' });
      } catch (error) {
        code = (error as { code: unknown }).code;
      }
    };
    bench.engine.step();
    expect(code).toBe('ERR_BLOCKSTEP_DUPLICATE_ID');
    bench.executor.onExecute = () => {};
    bench.submit({ id: 'a' });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('of what is unknown or has ended is counted and changes nothing', () => {
    const bench = new EngineBench({ strict: true });
    const stream = bench.submit({ id: 'a', maxTokens: 1 });
    bench.steps();
    stream.abort();
    bench.engine.abort(['a', 'nobody']);
    bench.engine.abort(stream.handle);
    bench.engine.abortAll();
    expect(bench.engine.stats().scheduler.anomalies).toEqual({ 'abort-unknown': 2, 'stale-handle': 1 });
    expect(bench.engine.health().healthy).toBe(true);
  });

  it('of a list is carried out as a whole in strict mode, and what is wrong with it thrown then', () => {
    const bench = new EngineBench({ strict: true });
    const streams = ['a', 'b', 'c'].map((id) => bench.submit({ id }));
    const never = streams[2].handle + 2 ** 21;
    const refused = (code: string) => expect.objectContaining({ code }) as Error;
    expect(() => bench.engine.abort(['a', 2 ** 22, never, 'nobody', streams[1].handle])).toThrow(
      refused('ERR_BLOCKSTEP_ANOMALY'),
    );
    expect(streams.map(({ ended }) => ended)).toEqual([true, true, false]);
    expect(bench.engine.stats().scheduler.anomalies).toEqual({ 'stale-handle': 2, 'abort-unknown': 1 });
    // A value that is no key at all is refused before anything is done.
    expect(() => bench.engine.abort(['c', Number.NaN])).toThrow(refused('ERR_BLOCKSTEP_BAD_ARG'));
    expect(streams[2].ended).toBe(false);
    bench.steps();
    expect(bench.engine.health().healthy).toBe(true);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('of one that has finished and whose blocks are held leaves them to their holder', () => {
    const bench = new EngineBench();
    const { handle } = bench.submit({ id: 'a', maxTokens: 1 });
    bench.engine.hold(handle, 'store', 'job');
    bench.steps();
    bench.engine.abort(handle);
    expect(bench.engine.stats()).toMatchObject({
      abortsQueued: 0,
      scheduler: { anomalies: { 'abort-finished': 1 }, numDraining: 1 },
    });
    expect(bench.engine.complete(handle, 'store', 'job')).toBe(true);
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('takes handles, each once, in any mixture', () => {
    const bench = new EngineBench();
    const streams = ['a', 'b', 'c'].map((id) => bench.submit({ id }));
    bench.engine.abort(new Set([streams[0].handle, 'a', 'b', streams[1].handle]));
    bench.engine.step();
    expect(bench.executor.seen[0].ids).toEqual(['c']);
    expect(bench.engine.stats().scheduler.anomalies).toEqual({});
  });

  it('of a request that finished since it was queued is not an anomaly', async () => {
    const bench = new EngineBench({ strict: true });
    bench.submit({ id: 'a', maxTokens: 1 });
    bench.engine.abort('a');
    schedulerOf(bench.engine).abort('a');
    bench.engine.step();
    await settled();
    expect(bench.engine.stats().scheduler.anomalies).toEqual({});
  });

  it('behind the back of the engine ends the stream all the same', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 5 });
    bench.engine.step();
    schedulerOf(bench.engine).abort('a');
    bench.steps();
    expect(await stream.result()).toMatchObject({ finishReason: 'abort', tokens: Int32Array.of(600) });
  });

  it('behind its back gives nobody the tokens of another request in the same slot', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 5 });
    bench.engine.step();
    const scheduler = schedulerOf(bench.engine);
    const { slot } = scheduler.get('a')!;
    scheduler.abort('a');
    scheduler.verify();
    scheduler.add({ id: 'x', prompt: prompt(9, 1), maxTokens: 3 });
    expect(scheduler.get('x')?.slot).toBe(slot);
    bench.steps();
    expect(await stream.result()).toMatchObject({ finishReason: 'abort', tokens: Int32Array.of(600) });
  });

  it('of a request that was added behind its back is not taken for that of its predecessor in the slot', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 5 });
    bench.engine.step();
    const scheduler = schedulerOf(bench.engine);
    scheduler.abort('a');
    scheduler.verify();
    scheduler.add({ id: 'x', prompt: prompt(9, 1), maxTokens: 3 });
    bench.engine.abort('x', mine);
    bench.steps();
    expect((await stream.result()).finishReason).toBe('abort');
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('reaches a request that was added behind the back of the engine', () => {
    const bench = new EngineBench();
    schedulerOf(bench.engine).add({ id: 'x', prompt: prompt(3), maxTokens: 9 });
    bench.engine.step();
    bench.engine.abort('x');
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it.each(['the engine', 'the scheduler'])(
    'through %s, while its connector hears of it, ends its stream at once',
    (who) => {
      const connector = new ScriptedConnector();
      const bench = new EngineBench({ connector });
      connector.during = (method, request) => {
        if (method !== 'new' || request === null) return;
        if (who === 'the engine') bench.engine.abort(request.handle);
        else expect(schedulerOf(bench.engine).abort(request.id)).toEqual([]);
      };
      const stream = bench.submit({ id: 'a' });
      expect(stream.ended).toBe(true);
      expect(bench.engine.explain('a')).toContain('aborted, its blocks are freed before the next step');
      expect(bench.engine.stats()).toMatchObject({ streams: 0, abortsQueued: 1 });
      bench.steps();
      expect(bench.executor.seen).toEqual([]);
      expect(leftovers(bench.engine)).toEqual([]);
    },
  );

  it('of a request that is aborted twice while it is added counts once, with the first reason', async () => {
    const connector = new ScriptedConnector();
    const bench = new EngineBench({ connector });
    connector.during = (method, request) => {
      if (method !== 'new' || request === null) return;
      bench.engine.abort(request.id, mine);
      bench.engine.abort(request.id, new Error('another'));
    };
    expect(await rejection(bench.submit({ id: 'a' }).result())).toBe(mine);
    bench.steps();
    expect(bench.engine.stats().scheduler.finished.abort).toBe(1);
  });

  it('from inside the clock keeps its request out of the step that reads it', () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a' });
    bench.submit({ id: 'b', maxTokens: 1 });
    bench.onClock = () => stream.stop('x');
    bench.engine.step();
    bench.onClock = () => {};
    expect(bench.executor.seen.map(({ ids }) => ids)).toEqual([['b']]);
    bench.steps();
    expect(bench.engine.stats()).toMatchObject({
      stopped: 1,
      scheduler: { finished: { abort: 0, stop: 1 } },
    });
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('is in one report, whoever made it', () => {
    const bench = new EngineBench();
    const streams = ['a', 'b', 'c', 'd'].map((id) => bench.submit({ id, maxTokens: 1 }));
    streams[0].abort();
    bench.executor.onExecute = () => bench.engine.abort('b');
    expect(bench.engine.step().ended).toBe(4);
    expect(bench.engine.step().ended).toBe(0);
  });

  it('of one that has finished and is still sent asks its connector to stop, with the next step', () => {
    const connector = new ScriptedConnector({ a: { delayFree: true } });
    const bench = new EngineBench({ connector, reclaim: 'on-confirmation' });
    const { handle } = bench.submit({ id: 'a', maxTokens: 1 });
    bench.steps();
    expect(bench.engine.stats().scheduler.numDraining).toBe(1);
    bench.engine.abort('a');
    expect(bench.engine.stats().abortsQueued).toBe(1);
    expect(bench.engine.stats().scheduler.anomalies).toEqual({});
    expect(connector.calls).not.toContain('cancel a');
    bench.steps();
    expect(connector.calls.filter((call) => call === 'cancel a')).toHaveLength(1);
    bench.engine.abort(handle);
    bench.steps();
    expect(connector.calls.filter((call) => call === 'cancel a')).toHaveLength(1);
  });
});
