import { describe, expect, it } from 'vitest';
import { Anomalies } from '../../src/base/anomalies.js';
import { ChunkReceiver } from '../../src/pipeline/chunks/chunk-receiver.js';
import { ChunkTransferAdapter } from '../../src/pipeline/chunks/chunk-transfer-adapter.js';
import { EarlyChunks } from '../../src/pipeline/chunks/early-chunks.js';
import type { Chunk } from '../../src/pipeline/transport/chunk.js';
import { seeded } from '../support/core-bench.js';
import { Clock } from './bench.js';

const chunkOf = (number: number, isLast = false, ids: number[] = [number]): Chunk => ({
  ...{ number, tokens: Int32Array.from(ids), extras: null, isLast },
});

describe('a chunk receiver', () => {
  it('gives out each chunk once and in order, whatever order they come in', () => {
    for (let seed = 0; seed < 30; seed++) {
      const next = seeded(seed);
      const count = 1 + next(20);
      const letters = Array.from({ length: 2 * count }, (_, i) =>
        chunkOf((i % count) + 1, (i % count) + 1 === count),
      );
      for (let i = letters.length - 1; i > 0; i--) {
        const j = next(i + 1);
        [letters[i], letters[j]] = [letters[j], letters[i]];
      }
      const receiver = new ChunkReceiver();
      const given: number[] = [];
      let numDoubled = 0;
      for (const letter of letters)
        if (receiver.receive(letter, ({ number }) => given.push(number)) === 'duplicate') numDoubled++;
      expect(given).toEqual(Array.from({ length: count }, (_, i) => i + 1));
      expect([receiver.isComplete, numDoubled]).toEqual([true, count]);
    }
  });

  it('takes nothing far beyond the window, and nothing behind the last chunk', () => {
    const receiver = new ChunkReceiver();
    const give = () => {};
    expect(receiver.receive(chunkOf(1026), give)).toBe('beyond-window');
    expect(receiver.receive(chunkOf(1025), give)).toBe('early');
    expect(receiver.receive(chunkOf(1, true), give)).toBe('ready');
    expect(receiver.receive(chunkOf(2), give)).toBe('after-end');
    expect(receiver.receive(chunkOf(1), give)).toBe('duplicate');
  });
});

function makeAdapter(stallMs = 100) {
  const clock = new Clock();
  const anomalies = new Anomalies(false);
  const adapter = new ChunkTransferAdapter(
    { chunkTokens: 1, maxChunksAhead: 2, stallMs },
    anomalies,
    clock.now,
  );
  const given: [string, number][] = [];
  const taken: [string, number][] = [];
  const sent: [string, number][] = [];
  const receive = (key: string, hasPrompt = false) =>
    adapter.receive(
      key,
      {
        from: 'thinker',
        give: ({ number }) => given.push([key, number]),
        taken: (number) => taken.push([key, number]),
      },
      hasPrompt,
    );
  const send = (key: string) =>
    adapter.send(key, { to: 'wave', send: ({ number }) => sent.push([key, number]) });
  return { clock, anomalies, adapter, given, taken, sent, receive, send };
}

describe('the chunk adapter', () => {
  it('parks what waits for a chunk, and only that', () => {
    const { adapter, given, taken, receive } = makeAdapter();
    receive('k');
    receive('p', true);
    expect(adapter.numParked).toBe(1);
    adapter.receiveChunk('k', chunkOf(1));
    adapter.receiveChunk('k', chunkOf(2));
    expect([adapter.numParked, given, taken]).toEqual([
      0,
      [
        ['k', 1],
        ['k', 2],
      ],
      [],
    ]);
    adapter.computed('k');
    expect([adapter.numParked, taken]).toEqual([0, [['k', 1]]]);
    adapter.computed('k');
    expect([adapter.numParked, taken.at(-1)]).toEqual([1, ['k', 2]]);
    adapter.computed('k');
    adapter.computed('p');
    expect([adapter.numParked, taken.length]).toEqual([2, 2]);
    adapter.receiveChunk('k', chunkOf(3, true));
    adapter.computed('k');
    expect([adapter.numParked, taken.at(-1)]).toEqual([1, ['k', 3]]);
  });

  it('says a wait that is too long at its time, no earlier, and in order', () => {
    const { adapter, clock, receive, send } = makeAdapter(100);
    expect(adapter.nextDeadline).toBe(Number.POSITIVE_INFINITY);
    receive('a');
    clock.ms += 40;
    receive('b');
    send('b');
    adapter.save('b', Int32Array.of(7), null, true);
    expect(adapter.nextDeadline).toBe(1100);
    clock.ms = 1099.999;
    expect(adapter.stalled()).toEqual([]);
    clock.ms = 1100;
    expect(adapter.stalled()).toEqual([{ key: 'a', why: 'waits for chunk 1 of thinker, 100 ms' }]);
    adapter.cancel('a');
    expect(adapter.nextDeadline).toBe(1140);
    clock.ms = 1140;
    expect(adapter.stalled()).toEqual([
      { key: 'b', why: 'waits for chunk 1 of thinker, 100 ms' },
      { key: 'b', why: 'waits for wave to take chunk 1, 100 ms' },
    ]);
  });

  it('restarts a wait with each chunk that comes, and each that is taken', () => {
    const { adapter, clock, receive, send } = makeAdapter(100);
    receive('a');
    send('a');
    for (let number = 1; number <= 5; number++) {
      clock.ms += 90;
      adapter.receiveChunk('a', chunkOf(number));
      adapter.save('a', Int32Array.of(number), null, true);
      adapter.computed('a');
      adapter.taken('a', number - 1);
      expect(adapter.stalled()).toEqual([]);
    }
    expect(adapter.explain('a')).toBe('waits for chunk 6 of thinker, 0 ms');
  });

  it('has no deadline with stallMs 0', () => {
    const { adapter, clock, receive } = makeAdapter(0);
    receive('a');
    clock.ms = 1e12;
    expect([adapter.stalled(), adapter.nextDeadline]).toEqual([[], Number.POSITIVE_INFINITY]);
  });

  it('forgets all of a request at once, and again, and counts what comes of it later', () => {
    const { adapter, anomalies, given, sent, receive, send } = makeAdapter();
    receive('a');
    send('a');
    adapter.save('a', Int32Array.of(1, 2, 3), null, false);
    expect([sent.length, adapter.numOpen]).toEqual([2, 1]);
    adapter.cleanupReceiver('a');
    adapter.cleanupReceiver('a');
    expect([adapter.numParked, adapter.numOpen]).toEqual([0, 1]);
    adapter.cancel('a');
    adapter.cancel('a');
    adapter.receiveChunk('a', chunkOf(1));
    adapter.taken('a', 1);
    adapter.computed('a');
    adapter.save('a', Int32Array.of(4), null, true);
    adapter.saveEnd('a');
    expect([given, sent.length, adapter.numOpen, adapter.numParked]).toEqual([[], 2, 0, 0]);
    expect([adapter.nextDeadline, adapter.explain('a')]).toEqual([Number.POSITIVE_INFINITY, null]);
    expect(anomalies.toObject()).toEqual({ 'chunk-unknown': 1 });
  });

  it('counts chunks and news of them that come twice, too far ahead, or behind the end', () => {
    const { adapter, anomalies, receive, send } = makeAdapter();
    receive('a');
    send('a');
    adapter.save('a', Int32Array.of(1), null, true);
    for (const chunk of [chunkOf(1), chunkOf(1), chunkOf(5000), chunkOf(2, true), chunkOf(3)])
      adapter.receiveChunk('a', chunk);
    adapter.taken('a', 1);
    adapter.taken('a', 1);
    adapter.taken('a', 7);
    expect(anomalies.toObject()).toEqual({
      ...{ 'duplicate-chunk': 3, 'chunk-beyond-window': 1, 'chunk-after-end': 1 },
    });
  });
});

describe('chunks that come before their request', () => {
  it('are given out once, or told as unknown after ten seconds, or when there are too many', () => {
    const unknown: string[] = [];
    const early = new EarlyChunks((key, { number }) => unknown.push(`${key}${number}`));
    early.keep('a', chunkOf(1), 0);
    early.keep('b', chunkOf(1), 5);
    early.keep('a', chunkOf(2), 6);
    expect([early.count, early.nextDeadline]).toEqual([3, 10_000]);
    early.expire(9999);
    expect(early.drain('a').map(({ number }) => number)).toEqual([1, 2]);
    expect([early.drain('a'), early.count, early.nextDeadline]).toEqual([[], 1, 10_005]);
    early.expire(10_005);
    expect([unknown, early.count]).toEqual([['b1'], 0]);
    for (let i = 0; i < 1025; i++) early.keep(`k${i}`, chunkOf(1), 0);
    expect([early.count, unknown.at(-1)]).toEqual([1024, 'k01']);
  });
});
