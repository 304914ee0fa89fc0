import { describe, expect, it } from 'vitest';
import type { RequestOutput, RequestStream } from '../../../src/index.js';
import { EngineBench, outputs, rejection, settled } from '../../support/engine-bench.js';
import { withMistakes } from '../../support/waiting.js';

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A reader by `onOutput` that takes everything whenever it is called. */
function listen(stream: RequestStream) {
  const heard = { calls: 0, taken: [] as RequestOutput[], errors: [] as unknown[] };
  stream.onOutput(() => {
    heard.calls++;
    try {
      for (let output = stream.read(); output !== null; output = stream.read()) heard.taken.push(output);
    } catch (error) {
      heard.errors.push(error);
    }
  });
  return heard;
}

const textOf = (taken: readonly RequestOutput[]) => taken.flatMap(({ tokens }) => [...tokens]);

// Pinned by: `onOutput` and `read` (request-stream.ts), `listen`, `readNow`, `wake` and `#end` (stream-buffer.ts), `News`.
describe('a reader by onOutput', () => {
  it('is called once for each step that brings it something, and takes what for await reads', async () => {
    const bench = new EngineBench({}, true);
    const [heard, other] = [{ maxTokens: 4 }, { maxTokens: 2 }].map((input) => listen(bench.submit(input)));
    const read = outputs(bench.submit({ maxTokens: 4 }));
    await bench.finish();
    expect(textOf(heard.taken)).toEqual([600, 700, 800, 900]);
    expect(heard.taken).toEqual(await read);
    expect([heard.calls, other.calls]).toEqual([4, 2]);
    expect(other.taken.at(-1)).toMatchObject({ finishReason: 'length', numOutputTokens: 2 });
    expect(bench.engine.stats()).toMatchObject({ bufferedTokens: 0, readersWaiting: 0 });
  });

  it('is called when the executor has got its next step, and never from inside a call', async () => {
    const bench = new EngineBench({}, true);
    const { executor, engine } = bench;
    const steps: number[] = [];
    const stream = bench.submit({ maxTokens: 3 });
    stream.onOutput(() => steps.push(executor.seen.length));
    void engine.run();
    while (!stream.ended) {
      await tick();
      await executor.deliver();
    }
    await tick();
    // With the last token there is no next step.
    expect(steps).toEqual([2, 3, 3]);
    let inside = true;
    const late = bench.submit({ maxTokens: 3 });
    late.onOutput(() => expect(inside).toBe(false));
    late.abort();
    inside = false;
    await settled();
    engine.stop();
  });

  it('may take late: nothing is lost, and the end comes behind it', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit({ maxTokens: 3 });
    let calls = 0;
    stream.onOutput(() => calls++);
    expect(stream.read()).toBeNull();
    await bench.finish();
    expect([...(stream.read()?.tokens ?? [])]).toEqual([600, 700, 800]);
    expect([stream.read(), calls]).toEqual([null, 3]);
    expect([...(await stream.result()).tokens]).toEqual([600, 700, 800]);
  });

  it('is told of what came before it listened, and of an end before that', async () => {
    const bench = new EngineBench({}, true);
    const streams = [3, 1].map((maxTokens) => bench.submit({ maxTokens }));
    await bench.finish();
    const heard = streams.map(listen);
    await settled();
    expect(heard.map(({ taken }) => textOf(taken))).toEqual([[600, 700, 800], [600]]);
    expect(heard.map(({ taken }) => taken.at(-1)?.finishReason)).toEqual(['length', 'length']);
  });

  it('hears of every end: abort, abort with a reason, stop, failure, and the end of the engine', async () => {
    const bench = new EngineBench({}, true);
    const streams = Array.from({ length: 5 }, () => bench.submit({ maxTokens: 50 }));
    const heard = streams.map(listen);
    await bench.engine.stepAsync();
    await bench.executor.deliver();
    const why = new Error('gone');
    streams[0].abort();
    streams[1].abort(why);
    streams[2].stop('word');
    await settled();
    expect(heard[0].taken.at(-1)?.finishReason).toBe('abort');
    expect(heard[1].errors).toEqual([why]);
    expect(heard[2].taken.at(-1)).toMatchObject({ finishReason: 'stop', stopReason: 'word' });
    bench.engine.dispose();
    await settled();
    for (const { errors } of heard.slice(3))
      expect(errors).toMatchObject([{ code: 'ERR_BLOCKSTEP_DISPOSED' }]);
    for (const stream of streams) expect(stream.read()).toBeNull();
  });

  it('that throws loses nobody anything', async () => {
    const bench = new EngineBench({}, true);
    await withMistakes(async (mistakes) => {
      const wrong = new Error('mistake');
      bench.submit({ maxTokens: 1 }).onOutput(() => {
        throw wrong;
      });
      const heard = listen(bench.submit({ maxTokens: 2 }));
      await bench.finish();
      expect([textOf(heard.taken), mistakes]).toEqual([[600, 700], [wrong]]);
    });
  });

  it('is the only one', async () => {
    const bench = new EngineBench({}, true);
    const stream = bench.submit({ id: 'a', maxTokens: 2 });
    listen(stream);
    expect(() => stream.onOutput(() => {})).toThrow(/"a" has a reader already/);
    expect(await rejection(outputs(stream))).toMatchObject({ code: 'ERR_BLOCKSTEP_BUSY' });
    const other = bench.submit({ maxTokens: 2 });
    const read = outputs(other);
    expect(() => other.onOutput(() => {})).toThrow(/has a reader already/);
    expect(() => other.read()).toThrow(/has a reader already/);
    expect(() => stream.onOutput(1 as never)).toThrow(/listener must be a function, got 1/);
    await bench.finish();
    await read;
  });
});
