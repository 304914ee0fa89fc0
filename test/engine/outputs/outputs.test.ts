// `engine.outputs()`: every token and every end once, slow readers, the end of the engine.
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { EngineOutputs, OutputsReader } from '../../../src/index.js';
import { answerOf, EngineBench, outputs, rejection, settled, tokensOf } from '../../support/engine-bench.js';
import { Listener } from './heard.js';

function listen(bench: EngineBench, options = {}): Listener {
  return new Listener(bench.engine.outputs(options));
}

async function nextOf(reader: OutputsReader): Promise<EngineOutputs> {
  const { value } = await reader.next();
  if (value === undefined) throw new Error('the outputs are over');
  return value;
}

const LENGTH = { finishReason: 'length', continues: false, stopReason: null, error: undefined };

// Pinned by: `outputs` (engine.ts), `OutputsFeed`, `OutputRows`, `RecentTokens.feed`, `append`, `endAnswer` and `#end` (stream-buffer.ts).
describe('a reader of all outputs', () => {
  it('gets one item for a step, with every token and every end', async () => {
    const bench = new EngineBench({}, true);
    const all = listen(bench);
    void all.readAll();
    const streams = [4, 2].map((maxTokens) => bench.submit({ maxTokens }));
    const read = outputs(streams[0]);
    await bench.finish();
    await settled();
    expect(all.of(streams[0].id)).toMatchObject([{ tokens: [600, 700, 800, 900], ends: [LENGTH] }]);
    expect(all.of(streams[1].id)).toMatchObject([{ tokens: [600, 700], ends: [LENGTH] }]);
    expect(all.items).toEqual([2, 2, 1, 1]);
    // The request's own readers get the same.
    expect(tokensOf(await read)).toEqual([600, 700, 800, 900]);
    expect([...(await streams[1].result()).tokens]).toEqual([600, 700]);
  });

  it('gets a step when the executor has got its next one', async () => {
    const bench = new EngineBench({}, true);
    const { executor, engine } = bench;
    const steps: number[] = [];
    const reader = engine.outputs();
    void (async () => {
      for await (const { length } of reader) steps.push(executor.seen.length + 10 * length);
    })();
    const stream = bench.submit({ maxTokens: 3 });
    void engine.run();
    while (!stream.ended) {
      await new Promise((resolve) => setImmediate(resolve));
      await executor.deliver();
    }
    await settled();
    // With the last token there is no next step.
    expect(steps).toEqual([12, 13, 13]);
    engine.stop();
  });

  it('gets what came while it was busy in one item, the rows of a request in their order', async () => {
    const bench = new EngineBench();
    const all = listen(bench);
    const streams = [3, 2].map((maxTokens) => bench.submit({ maxTokens }));
    bench.steps();
    await all.readOne();
    expect(all.items).toEqual([5]);
    expect(all.of(...streams.map(({ id }) => id)).map(({ tokens }) => tokens)).toEqual([
      [600, 700, 800],
      [600, 700],
    ]);
  });

  it('gets an item that is valid until the next call, from arrays that are used again', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs();
    const stream = bench.submit({ maxTokens: 9 });
    const items: EngineOutputs[] = [];
    const arrays = new Set<Int32Array>();
    for (let i = 0; i < 6; i++) {
      bench.engine.step();
      const item = await nextOf(reader);
      // Outputs that come meanwhile do not change the item.
      expect([item.length, item.tokens[0], item.requests[0].id]).toEqual([1, 600 + 100 * i, stream.id]);
      items.push(item);
      arrays.add(item.tokens);
    }
    expect(new Set(items).size).toBe(2);
    expect(arrays.size).toBe(2);
    bench.engine.dispose();
  });

  it('has an item untouched by the steps behind it', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs();
    bench.submit({ maxTokens: 4 });
    bench.engine.step();
    const item = await nextOf(reader);
    const before = [...item.tokens.subarray(0, 1), item.length];
    bench.steps();
    expect([...item.tokens.subarray(0, 1), item.length]).toEqual(before);
  });

  it('hears of every end that no step brings: aborts, with a reason or without, stops, failures', async () => {
    const bench = new EngineBench({ maxNumSeqs: 8 });
    const all = listen(bench);
    void all.readAll();
    const ids = ['plain', 'reason', 'stop', 'failed', 'before'];
    const [plain, reason, stop] = ids.slice(0, 4).map((id) => bench.submit({ id, maxTokens: 50 }));
    bench.engine.step();
    const why = new Error('why');
    plain.abort();
    reason.abort(why);
    stop.stop('word');
    const signal = AbortSignal.abort('early');
    bench.submit({ id: 'before' }, { signal });
    bench.executor.answer = () => {
      throw new Error('mine');
    };
    bench.steps();
    await settled();
    const ends = Object.fromEntries(all.of(...ids).map(({ id, ends: [...own] }) => [id, own]));
    const none = { continues: false, stopReason: null };
    expect(ends).toEqual({
      plain: [{ ...none, finishReason: 'abort', error: undefined }],
      reason: [{ ...none, finishReason: 'abort', error: why }],
      stop: [{ ...none, finishReason: 'stop', stopReason: 'word', error: undefined }],
      failed: [
        {
          ...none,
          finishReason: 'error',
          error: expect.objectContaining({ code: 'ERR_BLOCKSTEP_EXECUTOR' }),
        },
      ],
      before: [{ ...none, finishReason: 'abort', error: 'early' }],
    });
    expect(all.of('plain', 'reason', 'stop').map(({ tokens }) => tokens)).toEqual([[600], [600], [600]]);
  });

  it('hears of the answers of a session, and of a stop token', async () => {
    const bench = new EngineBench();
    const all = listen(bench);
    void all.readAll();
    const session = bench.submit({ id: 's', resumable: true, maxTokens: 2, stopTokenIds: [1000] });
    bench.steps();
    session.addChunk({ prompt: Int32Array.of(1, 2) });
    session.endInput();
    bench.steps();
    await settled();
    const [{ tokens, ends }] = all.of('s');
    expect(tokens).toEqual(tokensOf(await outputs(session)));
    expect(
      ends.map(({ finishReason, continues, stopReason }) => [finishReason, continues, stopReason]),
    ).toEqual([
      ['length', true, null],
      ['stop', false, 1000],
    ]);
  });

  it('hears of the end of a session behind that of its last answer', async () => {
    const bench = new EngineBench();
    const all = listen(bench);
    const session = bench.submit({ id: 's', resumable: true, maxTokens: 2 });
    bench.steps();
    session.endInput();
    await all.readOne();
    const [{ tokens, ends }] = all.of('s');
    expect(tokens).toEqual([600, 700]);
    expect(ends.map(({ finishReason, continues }) => [finishReason, continues])).toEqual([
      ['length', true],
      ['length', false],
    ]);
  });

  it('gets the extras of tokens, and none where there are none', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs();
    const all = new Listener(reader);
    const stream = bench.submit({ maxTokens: 6 });
    bench.engine.step();
    bench.executor.answer = (plan) => ({ ...answerOf(plan), extras: ['x'] });
    bench.engine.step();
    bench.executor.answer = answerOf;
    bench.engine.step();
    await all.readOne();
    expect(all.of(stream.id)[0].extras).toEqual([undefined, 'x', undefined]);
    for (let i = 0; i < 3; i++) {
      bench.engine.step();
      expect((await nextOf(reader)).extras).toBeNull();
    }
    expect((await stream.result()).extras).toEqual([
      undefined,
      'x',
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('lets go of the requests of a crowd when the crowd has gone', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs();
    for (let i = 0; i < 500; i++) bench.submit().abort();
    const [crowd, one] = [await nextOf(reader), bench.submit({ maxTokens: 9 })];
    expect(crowd.requests).toHaveLength(500);
    for (let i = 0; i < 4; i++) {
      bench.engine.step();
      await nextOf(reader);
    }
    expect(crowd.requests).toHaveLength(1);
    expect([crowd.requests[0].id, crowd.ends.length]).toEqual([one.id, 1]);
  });

  it('is one of several: each gets everything from its beginning on, at its own pace', async () => {
    const bench = new EngineBench();
    const [quick, slow] = [listen(bench), listen(bench)];
    void quick.readAll();
    const stream = bench.submit({ maxTokens: 4 });
    bench.engine.step();
    await settled();
    const late = listen(bench);
    bench.steps();
    await settled();
    await slow.readOne();
    await late.readOne();
    const heard = [quick, slow, late].map((each) => each.of(stream.id)[0].tokens);
    expect(heard).toEqual([
      [600, 700, 800, 900],
      [600, 700, 800, 900],
      [700, 800, 900],
    ]);
  });

  it('leaves by its loop or by return, and then nothing is kept for it; requests go on', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs();
    const stream = bench.submit({ maxTokens: 4 });
    bench.engine.step();
    for await (const { length } of reader) {
      expect(length).toBe(1);
      break;
    }
    const other = bench.engine.outputs();
    const waiting = other.next();
    expect((await other.return()).done).toBe(true);
    await other[Symbol.asyncDispose]();
    bench.steps();
    expect((await waiting).done).toBe(true);
    for (const left of [reader, other]) expect((await left.next()).done).toBe(true);
    expect(await rejection(bench.engine.outputs().throw('mine'))).toBe('mine');
    expect((await stream.result()).tokens).toHaveLength(4);
  });
});

describe('a reader of all outputs that is too slow', () => {
  it('loses what waits, and hears why; others and the engine go on', async () => {
    const bench = new EngineBench();
    const [slow, patient] = [listen(bench, { maxUnread: 5 }), listen(bench)];
    const stream = bench.submit({ maxTokens: 6 });
    // Two tokens in two rows are four.
    bench.engine.step();
    bench.engine.step();
    const early = bench.engine.outputs({ maxUnread: 4 });
    bench.steps();
    expect(await rejection(slow.reader.next())).toMatchObject({
      code: 'ERR_BLOCKSTEP_LIMIT',
      message: expect.stringMatching(/3 tokens in 3 rows were unread, more than maxUnread 5/),
    });
    expect((await slow.reader.next()).done).toBe(true);
    expect(await rejection(early.next())).toMatchObject({ code: 'ERR_BLOCKSTEP_LIMIT' });
    await patient.readOne();
    expect(patient.of(stream.id)[0].tokens).toHaveLength(6);
    expect(stream.ended).toBe(true);
  });

  it('is bounded by ends too', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs({ maxUnread: 3 });
    for (let i = 0; i < 4; i++) bench.submit().abort();
    expect(await rejection(reader.next())).toMatchObject({ code: 'ERR_BLOCKSTEP_LIMIT' });
  });

  it('may ask once at a time', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs();
    const first = reader.next();
    expect(await rejection(reader.next())).toMatchObject({ code: 'ERR_BLOCKSTEP_BUSY' });
    bench.submit({ maxTokens: 1 });
    bench.steps();
    expect((await first).value?.length).toBe(1);
  });
});

describe('the end of an engine', () => {
  it('ends the outputs, behind the ends of its requests', async () => {
    const bench = new EngineBench();
    const [waiting, idle] = [listen(bench), listen(bench)];
    void waiting.readAll();
    bench.submit({ id: 'a', maxTokens: 50 });
    bench.engine.step();
    bench.engine.dispose();
    await settled();
    await idle.readAll();
    for (const { over, of } of [waiting, idle].map((each) => ({ over: each.over, of: each.of('a') }))) {
      expect(over).toEqual({ error: null });
      expect(of).toMatchObject([{ tokens: [600], ends: [{ finishReason: 'error' }] }]);
      expect(of[0].ends[0].error).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    }
    expect(() => bench.engine.outputs()).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_DISPOSED' }));
  });

  it('is an abort for those whom a shutdown does not wait for', async () => {
    const bench = new EngineBench();
    const all = listen(bench);
    void all.readAll();
    bench.submit({ id: 'a', maxTokens: 50 });
    bench.engine.step();
    await bench.engine.shutdown({ drainMs: 0 });
    await settled();
    expect(all.of('a')[0].ends).toMatchObject([{ finishReason: 'abort' }]);
    expect(all.over).toEqual({ error: null });
  });

  it('by a fault rejects with the fault, once, behind the ends', async () => {
    const bench = new EngineBench({ executorTimeoutMs: 100 });
    const all = listen(bench);
    void all.readAll();
    bench.submit({ id: 'a' });
    bench.executor.answer = () => new Promise(() => {});
    bench.engine.step();
    bench.time += 1000;
    expect(() => bench.engine.step()).toThrow();
    await settled();
    expect(all.over?.error).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR_HUNG' });
    expect(all.of('a')[0].ends).toMatchObject([{ finishReason: 'error' }]);
    expect((await all.reader.next()).done).toBe(true);
  });
});

describe('outputs', () => {
  it('refuse bad options', () => {
    const { engine } = new EngineBench();
    for (const [options, message] of [
      [{ maxUnread: 0 }, /maxUnread must be an integer from 1/],
      [{ maxRead: 1 }, /maxRead/],
      [1, /options must be an object/],
    ] as const)
      expect(() => engine.outputs(options as never)).toThrow(message);
  });

  it('show their first rows', async () => {
    const bench = new EngineBench();
    const reader = bench.engine.outputs();
    bench.submit({ id: 'a', maxTokens: 1 });
    bench.steps();
    expect(inspect(await nextOf(reader))).toMatch(/EngineOutputs .*a: 1 tokens, length/s);
  });
});
