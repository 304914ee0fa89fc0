import { describe, expect, it } from 'vitest';
import type { RequestStream } from '../../../src/index.js';
import { EngineBench, prompt } from '../../support/engine-bench.js';
import { MemorySink } from '../../support/recorded-log.js';

/** Writes down the params of each entry when its step is executed. */
function recording(bench: EngineBench): unknown[][] {
  const seen: unknown[][] = [];
  bench.executor.onExecute = ({ requests, numRequests }) =>
    void seen.push(requests.slice(0, numRequests).map(({ params }) => params));
  return seen;
}

// Pinned by: `parseRequest`, `parseChunk` (parse-request.ts), `startChunk` (chunks.ts), `add` (log.ts).
describe('what a request gives its executor', () => {
  it('is what its client gave, that very thing, in every step; undefined where he gave nothing', () => {
    const params = { temperature: 0.5, image: Symbol('any'), self: () => params };
    const bench = new EngineBench();
    const seen = recording(bench);
    bench.submit({ id: 'a', params, maxTokens: 2 });
    bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 2 });
    bench.steps();
    expect(seen).toEqual([
      [params, undefined],
      [params, undefined],
    ]);
    for (const [first] of seen) expect(first).toBe(params);
  });

  it.each([null, 0, '', false, Symbol('s'), 1n])('may be anything (%s)', (params) => {
    const bench = new EngineBench();
    const seen = recording(bench);
    bench.submit({ params, maxTokens: 1 });
    bench.steps();
    expect(seen).toEqual([[params]]);
  });

  it.each([1, 2, 3] as const)(
    'of a session is that of the chunk that is answered, depth %i',
    async (pipelineDepth) => {
      const bench = new EngineBench({ pipelineDepth }, true);
      const seen = recording(bench);
      const chunk = (params: unknown) => ({
        prompt: prompt(2, 1),
        maxTokens: 2,
        ...(params === 'none' ? {} : { params }),
      });
      const stream: RequestStream = bench.submit({ maxTokens: 2, resumable: true, params: 'first' });
      const asked: unknown[] = ['second', 'none', null];
      for (const params of asked) stream.addChunk(chunk(params));
      stream.endInput();
      const wanted = ['first', 'second', 'first', null];
      const reading = (async () => {
        for await (const _ of stream);
      })();
      for (let i = 0; i < 60 && !stream.ended; i++) {
        bench.steps();
        const { length } = bench.engine.scheduler.getByHandle(stream.handle)?.session?.queue ?? [];
        const turn = wanted.length - 1 - length;
        for (const [params] of seen.splice(0)) expect(params).toBe(wanted[turn]);
        await bench.executor.deliver();
      }
      await reading;
      expect(stream.ended).toBe(true);
    },
  );

  it('of a session that idles stays that of the last chunk until the next one comes', () => {
    const bench = new EngineBench();
    const seen = recording(bench);
    const stream = bench.submit({ maxTokens: 1, resumable: true, params: 1 });
    bench.steps();
    for (const params of [2, undefined, 3]) {
      stream.addChunk({ prompt: prompt(1, 1), maxTokens: 1, ...(params === undefined ? {} : { params }) });
      bench.steps();
    }
    expect(seen).toEqual([[1], [2], [1], [3]]);
  });

  it('stands in no log, neither that of a request nor that of a chunk', () => {
    const log = new MemorySink();
    const bench = new EngineBench({ log });
    const secret = { secret: 1n, toJSON: () => 'secret' };
    const stream = bench.submit({ maxTokens: 1, resumable: true, params: secret });
    bench.steps();
    stream.addChunk({ prompt: prompt(2, 1), params: secret });
    stream.addChunk({ prompt: prompt(2, 1), params: secret });
    stream.endInput();
    bench.steps();
    const bytes = Buffer.from(log.bytes);
    expect(bytes.length).toBeGreaterThan(100);
    expect(bytes.includes('secret')).toBe(false);
    expect(bytes.includes('params')).toBe(false);
  });
});
