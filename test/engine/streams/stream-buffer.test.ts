// The buffer of one stream, and the totals over many.
import { describe, expect, it } from 'vitest';
import { TokenList } from '../../../src/engine/outputs/token-list.js';
import { StreamBuffer } from '../../../src/engine/streams/stream-buffer.js';
import { StreamTotals } from '../../../src/engine/streams/stream-totals.js';
import { BlockstepError, type Request, type StepOutputs } from '../../../src/index.js';
import { Random, rejection } from '../../support/engine-bench.js';

const late = new BlockstepError('ERR_BLOCKSTEP_REQUEST', 'late');

function stream(maxTokens = 100): StreamBuffer {
  const request = { id: 'a', maxTokens, addedAt: 0, stopReason: null } as Request;
  return new StreamBuffer(request, 0, new StreamTotals());
}

describe('a stream', () => {
  it('ends once: the first end counts', async () => {
    const one = stream();
    expect([one.end('stop', 1), one.end('length', 2), one.fail(late, 3)]).toEqual([true, false, false]);
    expect((await one.result()).finishReason).toBe('stop');
    expect((await one.next()).value?.finishReason).toBe('stop');

    const other = stream();
    const mine = new BlockstepError('ERR_BLOCKSTEP_LIMIT', 'mine', { cause: 'why' });
    expect([other.fail(mine, 1), other.cutOff(late, 2), other.end('stop', 3)]).toEqual([true, false, false]);
    expect(await rejection(other.next())).toMatchObject({
      code: 'ERR_BLOCKSTEP_LIMIT',
      message: 'mine',
      cause: 'why',
    });
  });

  it('gives its column back at its end, with every token taken', async () => {
    const totals = new StreamTotals();
    const request = { id: 'a', maxTokens: 9, addedAt: 0, stopReason: null } as Request;
    const one = new StreamBuffer(request, 0, totals);
    const outputs = {
      ...{ length: 1, requests: [request], tokens: Int32Array.of(7), tokenOffsets: Int32Array.of(0) },
      ...{ tokenCounts: Int32Array.of(1), finishReasons: Uint8Array.of(0) },
    } as unknown as StepOutputs;
    for (let i = 0; i < 3; i++) totals.recent.write(outputs, { of: () => one });
    expect(one.column).toBe(0);
    one.end('stop', 1);
    expect([one.column, totals.recent.owner(0)]).toEqual([-1, null]);
    expect([...(await one.result()).tokens]).toEqual([7, 7, 7]);
  });

  it('lets go of its signal at its end, once', () => {
    const one = stream();
    let released = 0;
    one.release = () => {
      released++;
    };
    one.end('stop', 1);
    one.end('stop', 1);
    expect(released).toBe(1);
  });

  it('grows with what comes, up to its limit and not beyond', () => {
    const tokens = Int32Array.from({ length: 1000 }, (_, i) => i);
    const one = new TokenList(100);
    const capacities = new Set<number>();
    const fill = (count: number) => {
      for (let i = 0; i < count; i++) {
        one.append(tokens, one.length, 1, null);
        capacities.add(one.capacity);
      }
    };
    fill(100);
    expect([...capacities]).toEqual([16, 32, 64, 100]);
    expect([...one.tokens()]).toEqual([...tokens.subarray(0, 100)]);
    expect(new TokenList(3).capacity).toBe(3);
    // A session goes beyond the limit of its answers.
    fill(300);
    expect([...capacities]).toEqual([16, 32, 64, 100, 200, 400]);
    expect([...one.tokens(50)]).toEqual([...tokens.subarray(50, 400)]);
  });

  it('takes more than was announced rather than lose it', async () => {
    const one = stream(4);
    one.append(
      Int32Array.from({ length: 50 }, (_, i) => i),
      0,
      50,
    );
    expect((await one.next()).value?.tokens).toHaveLength(50);
  });
});

// Pinned by: `#readTo`, `#setAwaited`, and the tokens that `#end` subtracts (stream-buffer.ts).
describe('the totals of many streams', () => {
  it.each([1, 2, 3, 4])('seed %i: are what a walk over those that have not ended finds', (seed) => {
    const random = new Random(seed);
    const totals = new StreamTotals();
    const streams = Array.from(
      { length: 6 },
      () => new StreamBuffer({ id: 'a', maxTokens: 99, addedAt: 0, stopReason: null } as Request, 0, totals),
    );
    const acts: ((stream: StreamBuffer) => unknown)[] = [
      (stream) => !stream.ended && stream.append(Int32Array.of(1, 2, 3), 0, random.below(4)),
      (stream) => stream.wake(),
      (stream) => stream.next().catch(() => {}),
      (stream) => stream.next().catch(() => {}),
      (stream) => !stream.ended && stream.endAnswer('stop'),
      (stream) => random.chance(10) && stream.close(),
      (stream) => random.chance(10) && stream.end('length', 1),
      (stream) => random.chance(5) && stream.fail(late, 1),
      (stream) => random.chance(5) && stream.cutOff('reason', 1),
    ];
    for (let i = 0; i < 400; i++) {
      acts[random.below(acts.length)](streams[random.below(streams.length)]);
      const live = streams.filter(({ ended }) => !ended);
      expect(totals).toMatchObject({
        bufferedTokens: live.reduce((sum, { numBuffered }) => sum + numBuffered, 0),
        readersWaiting: live.filter(({ isAwaited }) => isAwaited).length,
      });
    }
    for (const stream of streams) stream.end('abort', 2);
    expect(totals).toMatchObject({ bufferedTokens: 0, readersWaiting: 0 });
  });
});
