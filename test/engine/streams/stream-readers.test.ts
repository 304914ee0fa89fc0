// A second reader is refused if it would miss outputs; a stream in `console.log`.
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { BlockstepError, type RequestStream } from '../../../src/index.js';
import { EngineBench, leftovers, outputs, rejection, settled, tokensOf } from '../../support/engine-bench.js';

function refusal(act: () => unknown): BlockstepError {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(BlockstepError);
    expect((error as BlockstepError).code).toBe('ERR_BLOCKSTEP_BUSY');
    return error as BlockstepError;
  }
  throw new Error('it was let in');
}

const readerOf = (stream: RequestStream) => stream[Symbol.asyncIterator]();

// Pinned by: `[Symbol.asyncIterator]` (request-stream.ts), `isReadOut` and `wasLeft` (stream-buffer.ts).
describe('a second reader', () => {
  it('is refused while there is a first, and takes nothing from it', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit({ id: 'a', maxTokens: 3 });
    const first = outputs(stream);
    const second = rejection(outputs(stream));
    expect(await second).toMatchObject({ code: 'ERR_BLOCKSTEP_BUSY' });
    expect(refusal(() => readerOf(stream)).message).toMatch(/"a" already has a reader.*await result\(\)/);
    await bench.finish();
    expect(tokensOf(await first)).toEqual([600, 700, 800]);
    expect([...(await stream.result()).tokens]).toEqual([600, 700, 800]);
  });

  it('is refused also where the first has not begun, and until it has had the last output', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2 });
    const reader = readerOf(stream);
    refusal(() => readerOf(stream));
    bench.steps();
    expect(stream.ended).toBe(true);
    refusal(() => readerOf(stream));
    expect((await reader.next()).value?.finishReason).toBe('length');
    expect(await outputs(stream)).toEqual([]);
  });

  it('finds the stream at its end when the first has read it to its end', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2 });
    bench.steps();
    expect(tokensOf(await outputs(stream))).toEqual([600, 700]);
    expect(await outputs(stream)).toEqual([]);
    expect(await outputs(stream)).toEqual([]);
  });

  it('finds the stream at its end when the first was told of the failure', async () => {
    const bench = new EngineBench();
    bench.executor.answer = () => {
      throw new Error('broken');
    };
    const stream = bench.submit();
    bench.steps();
    expect(await rejection(outputs(stream))).toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
    expect(await outputs(stream)).toEqual([]);
  });

  it('is refused when the first left before the end', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 9 });
    bench.engine.step();
    for await (const _ of stream) break;
    const refused = refusal(() => readerOf(stream));
    expect(refused.message).toMatch(/"a" left before the last output.*result\(\)/);
    expect(await stream.result()).toMatchObject({ finishReason: 'abort', tokens: Int32Array.of(600) });
    bench.steps();
    refusal(() => readerOf(stream));
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('is refused when the first left what had come and was not read', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2 });
    bench.steps();
    await readerOf(stream).return();
    refusal(() => readerOf(stream));
    expect((await stream.result()).tokens).toHaveLength(2);
  });

  it('is let in when the first left at the last output: nothing was lost', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2 });
    bench.steps();
    for await (const { finishReason } of stream) if (finishReason !== null) break;
    expect(await outputs(stream)).toEqual([]);
  });

  it('of a session is refused between its answers', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 2, resumable: true });
    const reader = readerOf(stream);
    bench.steps();
    expect((await reader.next()).value).toMatchObject({ finishReason: 'length', continues: true });
    refusal(() => readerOf(stream));
    stream.endInput();
    bench.steps();
    expect((await reader.next()).value).toMatchObject({ finishReason: 'length', continues: false });
    expect(await outputs(stream)).toEqual([]);
  });
});

describe('one reader', () => {
  it('may have many calls of next waiting, and may be looped over itself', async () => {
    const bench = new EngineBench();
    const stream = bench.submit({ maxTokens: 4 });
    const reader = readerOf(stream);
    expect(reader[Symbol.asyncIterator]()).toBe(reader);
    const two = [reader.next(), reader.next()];
    for (let i = 0; i < 6; i++) {
      bench.engine.step();
      await settled();
    }
    expect((await Promise.all(two)).map(({ value }) => [...value!.tokens])).toEqual([[600], [700]]);
    expect(tokensOf(await outputs(reader))).toEqual([800, 900]);
  });
});

describe('what is printed of a stream', () => {
  it('is its id, its state, its tokens and how it ended', () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a', maxTokens: 2 });
    const waiting = "RequestStream { id: 'a', state: 'waiting', tokens: 0, reason: null }";
    expect(inspect(stream)).toBe(waiting);
    bench.engine.step();
    expect(inspect(stream)).toBe("RequestStream { id: 'a', state: 'running', tokens: 1, reason: null }");
    const reader = readerOf(stream);
    expect(inspect(reader)).toBe("OutputIterator { id: 'a', state: 'running', tokens: 1, reason: null }");
    bench.steps();
    expect(inspect(stream)).toBe("RequestStream { id: 'a', state: 'finished', tokens: 2, reason: 'length' }");
    expect(inspect({ stream }, { depth: 0 })).toBe('{ stream: [RequestStream] }');
  });

  it('says abort of what was aborted, with the reason that was given, and error of what failed', () => {
    const bench = new EngineBench();
    const shown = (act: (stream: RequestStream) => void, id: string): string => {
      const stream = bench.submit({ id });
      act(stream);
      bench.steps();
      return inspect(stream, { breakLength: Number.POSITIVE_INFINITY });
    };
    expect(shown((stream) => stream.abort(), 'a')).toMatch(
      /state: 'finished', tokens: 0, reason: 'abort' }$/,
    );
    expect(shown((stream) => stream.abort('mine'), 'b')).toMatch(/reason: 'abort', error: 'mine' }$/);
    expect(shown((stream) => stream.stop('.'), 'c')).toMatch(/reason: 'stop' }$/);
    bench.executor.answer = () => {
      throw new Error('broken');
    };
    expect(shown(() => {}, 'd')).toMatch(/reason: 'error', error: 'BlockstepError: .*broken.*' }$/);
  });

  it('never fails, whatever is printed', () => {
    const bench = new EngineBench();
    const stream = bench.submit({ id: 'a' });
    const { proxy: hostile, revoke } = Proxy.revocable({}, {});
    revoke();
    stream.abort(hostile);
    expect(inspect(stream)).toMatch(/reason: 'abort'/);
    for (const object of [stream, readerOf(bench.submit())]) {
      expect(inspect(Object.getPrototypeOf(object))).toBe('{}');
      expect(inspect(Object.create(object))).toMatch(/^(RequestStream|OutputIterator) {}$/);
    }
    bench.engine.dispose();
    expect(inspect(stream)).toMatch(/^RequestStream/);
  });
});
