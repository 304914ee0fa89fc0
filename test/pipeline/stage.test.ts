// One stage with late, duplicate, lost and foreign messages.
import { describe, expect, it } from 'vitest';
import { Stage } from '../../src/pipeline/stage/stage.js';
import { parseStageOptions } from '../../src/pipeline/stage/stage-options.js';
import { MemoryTransport } from '../../src/pipeline/transport/memory-transport.js';
import { unpagedText } from '../support/unpaged-text.js';
import { Clock, codeOf, StageBench, stageOf } from './bench.js';

const BENIGN = { stage: 'b', key: 'k' };

describe('a stage', () => {
  it.each(['ar', 'generation'] as const)(
    'of kind %s computes chunks in order, tells what was computed, and ends',
    async (kind) => {
      const bench = new StageBench({ kind });
      bench.submit('k');
      expect(bench.stage.figures()).toEqual({
        requests: 1,
        parked: 1,
        chunksIn: 0,
        chunksOut: 0,
        troubles: [],
      });
      expect(bench.stage.explain('k')).toBe('waits for chunk 1 of a, 0 ms');
      bench.chunk('k', 2, [4, 5, 4], true);
      expect(bench.stage.figures().parked).toBe(1);
      bench.chunk('k', 1, [1, 2, 1]);
      await bench.settle();
      expect(bench.post.drain('taken').map(({ number }) => number)).toEqual([1, 2]);
      const outputs = bench.post.drain('output');
      expect(outputs.map(({ number }) => number)).toEqual(outputs.map((_, i) => i + 1));
      const text = outputs.flatMap(({ output }) => [...output.tokens]);
      const first = unpagedText(Int32Array.of(1, 2, 1), kind === 'ar' ? 4 : 1, { seed: 1 });
      const then = kind === 'ar' ? [1, 2, 1, ...first.slice(0, -1), 4, 5, 4] : [4, 5, 4];
      expect(text).toEqual([
        ...first,
        ...unpagedText(Int32Array.from(then), kind === 'ar' ? 4 : 1, { seed: 1 }),
      ]);
      // The chunks behind it were not all taken, so the request has not ended here.
      const chunks = bench.post.drain('chunk');
      expect(chunks.flatMap(({ chunk }) => [...chunk.tokens])).toEqual(text);
      expect(bench.post.drain('ended')).toMatchObject([{ ...BENIGN, numOutputs: outputs.length }]);
      expect(bench.failure()).toBeUndefined();
      expect(bench.stage.stats().anomalies).toEqual({});
    },
  );

  it('ends, and says so, only when its last chunk is sent', async () => {
    const bench = new StageBench({ maxChunksAhead: 1, stallMs: 100 });
    bench.submit('k', { from: null, prompt: Int32Array.of(1, 2, 3), fields: { maxTokens: 7 } });
    await bench.settle();
    expect([bench.post.drain('ended'), bench.post.drain('chunk').length]).toEqual([[], 1]);
    expect(bench.stage.explain('k')).toBe('waits for c to take chunk 1, 0 ms');
    bench.clock.ms += 99;
    bench.tell({ kind: 'taken', key: 'k', number: 1 });
    bench.clock.ms += 99;
    bench.stage.tick();
    expect(bench.post.drain('ended')).toEqual([]);
    bench.tell({ kind: 'taken', key: 'k', number: 2 });
    expect(bench.post.drain('ended').length).toBe(1);
    expect(bench.failure()).toBeUndefined();
  });

  it('gives up what cannot send its chunks, though it is computed, and says why', async () => {
    const bench = new StageBench({ maxChunksAhead: 1, stallMs: 100 });
    bench.submit('k', { from: null, prompt: Int32Array.of(1, 2, 3), fields: { maxTokens: 7 } });
    await bench.settle();
    bench.clock.ms += 100;
    expect(bench.stage.nextDeadline).toBe(bench.clock.ms);
    bench.stage.tick();
    expect(bench.failure()?.message).toBe(
      'request "x" waits for c to take chunk 1, 100 ms: stallMs of stage b is 100',
    );
    expect(bench.stage.nextDeadline).toBe(Number.POSITIVE_INFINITY);
  });

  it('gives up what waits for a chunk that never comes, exactly at its time', () => {
    const bench = new StageBench({ stallMs: 250 });
    bench.submit('k');
    for (const ms of [200, 49]) {
      bench.clock.ms += ms;
      bench.stage.tick();
    }
    expect(bench.stage.figures().requests).toBe(1);
    bench.clock.ms += 1;
    bench.stage.tick();
    expect(bench.failure()).toMatchObject({
      code: 'ERR_BLOCKSTEP_REQUEST',
      message: 'request "x" waits for chunk 1 of a, 250 ms: stallMs of stage b is 250',
    });
  });

  it('begins nothing twice, nothing behind its end, and nothing behind its abort', () => {
    const bench = new StageBench();
    bench.submit('k');
    bench.submit('k');
    bench.tell({ kind: 'abort', key: 'k' }, { kind: 'abort', key: 'k' }, { kind: 'abort', key: 'later' });
    bench.submit('k');
    bench.submit('later');
    expect(bench.stage.stats()).toMatchObject({
      begun: 1,
      ended: 1,
      requests: 0,
      anomalies: { 'duplicate-job': 3 },
    });
    expect(bench.failure()).toBeUndefined();
    expect(bench.post.sent).toEqual([]);
  });

  it('takes a chunk that has overtaken its submission, and none for what has ended', () => {
    const bench = new StageBench();
    bench.chunk('k', 1, [1, 2]);
    bench.submit('k');
    expect(bench.stage.figures()).toMatchObject({ chunksIn: 1, parked: 0 });
    bench.tell({ kind: 'abort', key: 'k' });
    bench.chunk('k', 2, [1, 2]);
    expect(bench.stage.stats().anomalies).toEqual({ 'chunk-unknown': 1 });
    bench.chunk('never', 1, [1]);
    bench.clock.ms += 10_000;
    bench.stage.tick();
    expect(bench.stage.stats().anomalies).toEqual({ 'chunk-unknown': 2 });
  });

  it('gives a chunk of an old request to none that has its id now', async () => {
    const bench = new StageBench();
    bench.submit('c.1');
    bench.tell({ kind: 'abort', key: 'c.1' });
    bench.submit('c.2');
    bench.chunk('c.1', 1, [1, 2]);
    await bench.settle();
    expect(bench.stage.figures()).toMatchObject({ requests: 1, parked: 1, chunksIn: 0 });
    expect(bench.post.sent).toEqual([]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no such voice');
      },
      /no such voice/,
    ],
    ['returns no object', () => 5 as never, /must be an object, got 5/],
    ['returns a name that nobody knows', () => ({ prompt: [1], resumable: true }) as never, /resumable/],
    ['returns a promise', async () => ({ prompt: [1] }) as never, /prompt/],
    ['returns what does not fit', () => ({ prompt: new Int32Array(500) }), /500/],
  ])('fails a request whose input() %s', async (_what, input, message) => {
    for (const kind of ['ar', 'generation'] as const) {
      const bench = new StageBench({ kind, input: input as never });
      bench.submit('k');
      bench.submit('other', { from: null, prompt: Int32Array.of(1), to: null });
      bench.chunk('k', 1, [1]);
      await bench.settle();
      expect(bench.post.drain('ended').map(({ key }) => key)).toEqual(['other']);
      expect(bench.failure()?.message).toMatch(message);
    }
  });

  it('fails a request whose chunk does not fit in the middle', async () => {
    for (const kind of ['ar', 'generation'] as const) {
      const bench = new StageBench({ kind });
      bench.submit('k');
      bench.chunk('k', 1, [1, 2]);
      await bench.settle();
      bench.chunk(
        'k',
        2,
        Array.from({ length: 200 }, () => 1),
      );
      await bench.settle();
      expect(bench.failure()?.code).toBe('ERR_BLOCKSTEP_UNFIT');
    }
  });

  it('computes nothing for a chunk whose input() is null, and goes on', async () => {
    for (const kind of ['ar', 'generation'] as const) {
      const input = ({ number, tokens }: { number: number; tokens: Int32Array }) =>
        number === 2 || tokens.length === 0 ? null : { prompt: tokens };
      const bench = new StageBench({ kind, input, maxChunksAhead: 100 });
      bench.submit('k');
      for (let n = 1; n <= 3; n++) bench.chunk('k', n, [n]);
      bench.chunk('k', 4, [], true);
      await bench.settle();
      expect(bench.post.drain('taken').at(-1)?.number).toBe(4);
      expect(bench.post.drain('output').filter(({ output }) => output.finishReason !== null).length).toBe(2);
      expect(bench.post.drain('ended').length).toBe(1);
      expect(bench.failure()).toBeUndefined();
    }
  });

  it('ends with `stop` where nothing came but the end', async () => {
    for (const kind of ['ar', 'generation'] as const) {
      const bench = new StageBench({ kind });
      bench.submit('k');
      bench.chunk('k', 1, [], true);
      await bench.settle();
      const [{ end }] = bench.post.drain('ended');
      expect(end).toMatchObject({ finishReason: 'stop', numOutputTokens: 0 });
      expect(bench.post.drain('chunk')).toMatchObject([{ chunk: { number: 1, isLast: true } }]);
      expect(bench.post.drain('output')).toEqual([]);
      expect(bench.failure()).toBeUndefined();
    }
  });

  it.each(['ar', 'generation'] as const)(
    'of kind %s fails its requests when its engine is disposed or broken',
    async (kind) => {
      const bench = new StageBench({ kind });
      bench.submit('k');
      bench.chunk('k', 1, [1, 2]);
      bench.stage.engine.dispose();
      await new Promise((resolve) => setImmediate(resolve));
      expect(bench.post.drain('failed')[0].failure.code).toBe('ERR_BLOCKSTEP_DISPOSED');
      bench.submit('l', { from: null, prompt: Int32Array.of(1) });
      expect(bench.post.drain('failed')[0]).toMatchObject({ key: 'l' });
      expect(bench.stage.figures().requests).toBe(0);
    },
  );

  it.each(['ar', 'generation'] as const)(
    'of kind %s takes an abort by its engine for a failure',
    async (kind) => {
      const bench = new StageBench({ kind });
      bench.stage.engine.pause('all');
      bench.submit('k');
      bench.chunk('k', 1, [1, 2]);
      await bench.stage.engine.shutdown({ drainMs: 0 });
      await new Promise((resolve) => setImmediate(resolve));
      expect(bench.post.drain('ended')).toEqual([]);
      expect(bench.post.drain('output').filter(({ output }) => output.finishReason !== null)).toEqual([]);
      expect(bench.post.drain('failed')[0].failure.message).toBe("the stage's engine aborted it");
    },
  );

  it('tells its requests that it is closed, and is then gone', async () => {
    const bench = new StageBench();
    bench.submit('k');
    await bench.stage.close();
    expect(bench.failure()).toMatchObject({
      code: 'ERR_BLOCKSTEP_SHUTDOWN',
      message: 'the stage was shut down',
    });
    expect(bench.post.mailboxes.size).toBe(0);
  });

  it('aborts the requests of a client that was not heard of for deadMs, and of no other', () => {
    const bench = new StageBench({}, 1000);
    bench.submit('k');
    bench.submit('l', { client: 'client/d' });
    for (let i = 0; i < 10; i++) {
      bench.clock.ms += 100;
      bench.tell({ kind: 'ping', client: 'client/d', number: i });
      bench.stage.tick();
    }
    expect(bench.post.drain('pong').at(-1)?.keys).toEqual(['l']);
    expect(bench.stage.figures().requests).toBe(1);
  });

  it('blames no client for the time in which it was asleep itself', () => {
    const bench = new StageBench({}, 1000);
    bench.submit('k');
    bench.clock.ms += 5000;
    bench.stage.tick();
    expect(bench.stage.figures().requests).toBe(1);
    while (bench.stage.figures().requests > 0) {
      expect(bench.stage.nextDeadline).toBeGreaterThan(bench.clock.ms);
      bench.clock.ms = bench.stage.nextDeadline;
      bench.stage.tick();
    }
    expect(bench.clock.ms).toBe(7000);
  });

  it('blames nobody for what it has not read, since it stood still itself', async () => {
    const bench = new StageBench({ maxChunksAhead: 1, stallMs: 1000 });
    bench.submit('sends', { from: null, prompt: Int32Array.of(1, 2, 3), fields: { maxTokens: 7 } });
    await bench.settle();
    bench.submit('waits');
    bench.clock.ms += 250;
    bench.stage.tick();
    bench.clock.ms += 5000;
    bench.stage.tick();
    expect(bench.stage.figures().requests).toBe(2);
    expect(bench.stage.nextDeadline).toBe(bench.clock.ms + 250);
    bench.chunk('waits', 1, [1, 2]);
    bench.tell({ kind: 'taken', key: 'sends', number: 1 });
    await bench.settle();
    while (bench.stage.figures().requests > 0) {
      expect(bench.stage.nextDeadline).toBeGreaterThan(bench.clock.ms);
      bench.clock.ms = bench.stage.nextDeadline;
      bench.stage.tick();
    }
    // With the chunk that was read, both waits begin again.
    expect(bench.clock.ms).toBe(7250);
    expect(bench.post.drain('failed').map(({ failure }) => failure.message)).toEqual([
      'request "x" waits for chunk 2 of a, 1000 ms: stallMs of stage b is 1000',
      'request "x" waits for c to take chunk 2, 1000 ms: stallMs of stage b is 1000',
    ]);
  });

  it('fails what may have lost a message, and counts messages for others', () => {
    const bench = new StageBench();
    bench.submit('k');
    bench.submit('l', { from: 'stage/other', client: 'client/d' });
    bench.post.mailboxes.get('stage/b')?.lost('stage/a', 'the server was restarted');
    expect(bench.post.drain('failed')).toMatchObject([
      { key: 'k', failure: { code: 'ERR_BLOCKSTEP_STAGE', message: 'the server was restarted' } },
    ]);
    bench.tell({ kind: 'explained', ask: 1, text: '' });
    expect(bench.stage.stats().anomalies).toEqual({ 'foreign-message': 1 });
  });

  const firstStage = { from: null, prompt: Int32Array.of(1, 2, 3), fields: { maxTokens: 7 } };

  it.each([
    ['chunk', 1, 'its chunk for c cannot be sent: why'],
    ['chunk', 2, 'its chunk for c cannot be sent: why'],
    ['chunk', 4, 'its chunk for c cannot be sent: why'],
    ['output', 1, 'its output for the client cannot be sent: why'],
  ] as const)(
    'fails a request whose %s %i can never be sent, and no other',
    async (kind, number, message) => {
      const bench = new StageBench();
      bench.submit('other', { ...firstStage, to: null });
      bench.submit('k', firstStage);
      bench.post.refuses = (sent) => {
        if (sent.kind === 'output') return kind === 'output' && sent.key === 'k' ? 'why' : null;
        return sent.kind === kind && sent.chunk.number === number ? 'why' : null;
      };
      await bench.settle();
      expect(bench.post.drain('ended').map(({ key }) => key)).toEqual(['other']);
      expect(bench.failure()).toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST', message });
    },
  );

  it.each(['chunk', 'output'])('fails it at once, while more input may come: %s', async (kind) => {
    const bench = new StageBench();
    bench.post.refuses = (sent) => (sent.kind === kind ? 'why' : null);
    bench.submit('k');
    bench.chunk('k', 1, [5, 6]);
    await bench.settle();
    expect(bench.failure()?.message).toMatch(/^its (chunk for c|output for the client) cannot be sent: why$/);
  });

  it('fails a request whose chunk can never be sent, though its work had ended before', async () => {
    const bench = new StageBench({ maxChunksAhead: 1 });
    bench.submit('k', firstStage);
    await bench.settle();
    bench.post.refuses = ({ kind }) => (kind === 'chunk' ? 'why' : null);
    bench.tell({ kind: 'taken', key: 'k', number: 1 });
    expect(bench.post.drain('ended')).toEqual([]);
    expect(bench.failure()?.message).toBe('its chunk for c cannot be sent: why');
  });

  it('that cannot join leaves no engine behind', () => {
    const place = { transport: new MemoryTransport(), now: new Clock().now, deadMs: 0 };
    const first = new Stage(parseStageOptions(stageOf('b')), place);
    const options = stageOf('b');
    expect(codeOf(() => new Stage(parseStageOptions(options), place))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(() => (options.engine.executor as { kv?: unknown }).kv).toThrow(/disposed/);
    first.engine.dispose();
  });
});
