// The texts that share a call, and the cost of a failed call.
import { describe, expect, it } from 'vitest';
import { EmbedQueue } from '../../../../src/executors/llama-cpp/embed/embed-queue.js';
import type { NativeEmbedder } from '../../../../src/executors/llama-cpp/native/binding.js';

/** An embedder whose vectors are a text's first token and its length, and which fails at a token. */
function fake(failsAt = -1) {
  const calls: number[][] = [];
  const native: NativeEmbedder = {
    embed: (tokens, lengths) => {
      calls.push([...lengths]);
      if (tokens.includes(failsAt)) return Promise.reject(new Error('memory could not be allocated'));
      const starts = lengths.map((_, i) => lengths.subarray(0, i).reduce((sum, each) => sum + each, 0));
      return Promise.resolve(
        Float32Array.from([...lengths].flatMap((length, i) => [tokens[starts[i]], length])),
      );
    },
    width: () => 2,
    pooling: () => 1,
    dispose: () => {},
  };
  return { native, calls };
}

const text = (first: number, length: number) => new Int32Array(length).fill(first);

describe('texts that wait for their vectors', () => {
  it('share calls in their order, as far as they fit', async () => {
    const { native, calls } = fake();
    const queue = new EmbedQueue(native, 10, 3);
    const first = queue.add([text(1, 4), text(2, 4)], null);
    const second = queue.add([text(3, 2), text(4, 9), text(5, 1), text(6, 1), text(7, 1), text(8, 1)], null);
    expect((await first).map((each) => [...each])).toEqual([
      [1, 4],
      [2, 4],
    ]);
    expect((await second).map(([token]) => token)).toEqual([3, 4, 5, 6, 7, 8]);
    // The first text had a call of its own; then three texts at most, and ten tokens.
    expect(calls).toEqual([[4, 4], [2], [9, 1], [1, 1, 1]]);
  });

  it('fail with their call, and no others do', async () => {
    const { native } = fake(13);
    const queue = new EmbedQueue(native, 10, 4);
    const before = queue.add([text(1, 8)], null);
    const failing = queue.add([text(2, 8), text(13, 8), text(3, 8)], null);
    const behind = queue.add([text(4, 8)], null);
    expect(await before).toHaveLength(1);
    await expect(failing).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_EXECUTOR',
      message: 'llama.cpp failed: memory could not be allocated',
    });
    expect(await behind).toHaveLength(1);
    expect(await queue.add([text(5, 1)], null)).toHaveLength(1);
  });

  it('that are taken back leave their place to others', async () => {
    const { native, calls } = fake();
    const queue = new EmbedQueue(native, 10, 4);
    const first = queue.add([text(1, 8)], null);
    const abort = new AbortController();
    const taken = queue.add([text(2, 8)], abort.signal);
    const behind = queue.add([text(3, 8)], null);
    abort.abort(new Error('enough'));
    await expect(taken).rejects.toThrow('enough');
    expect([await first, await behind].map(([[token]]) => token)).toEqual([1, 3]);
    expect(calls).toHaveLength(2);
    queue.dispose();
    await expect(queue.add([text(1, 1)], null)).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
  });
});
