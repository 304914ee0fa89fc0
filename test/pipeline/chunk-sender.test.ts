// Outgoing chunks: their times and sizes.
import { describe, expect, it } from 'vitest';
import { ChunkSender } from '../../src/pipeline/chunks/chunk-sender.js';
import type { Chunk } from '../../src/pipeline/transport/chunk.js';
import { seeded } from '../support/core-bench.js';

function make(size: number, window: number) {
  const chunks: Chunk[] = [];
  return { chunks, sender: new ChunkSender(size, window, (chunk) => chunks.push(chunk)) };
}
const tokens = (...ids: number[]) => Int32Array.from(ids);
const seen = (chunks: readonly Chunk[]) => chunks.map(({ tokens: ids, isLast }) => [[...ids], isLast]);

describe('a chunk sender', () => {
  it('sends what fills a chunk, and the rest where an answer ends', () => {
    const { chunks, sender } = make(3, 4);
    sender.add(tokens(1, 2), null, false, 0);
    expect(chunks).toEqual([]);
    sender.add(tokens(3, 4), null, false, 0);
    sender.add(tokens(5), null, true, 0);
    sender.end(0);
    expect(seen(chunks)).toEqual([
      [[1, 2, 3], false],
      [[4, 5], false],
      [[], true],
    ]);
    expect(chunks.map(({ number }) => number)).toEqual([1, 2, 3]);
    expect([sender.isOver, sender.numUnsent]).toEqual([true, 0]);
  });

  it('says the end by itself, whenever it is known', () => {
    const { chunks, sender } = make(3, 1);
    sender.add(tokens(1, 2, 3, 4), null, false, 0);
    sender.end(0);
    expect(seen(chunks)).toEqual([[[1, 2, 3], false]]);
    sender.taken(1, 0);
    expect(seen(chunks).slice(1)).toEqual([
      [[4], false],
      [[], true],
    ]);
  });

  it('keeps back what is beyond the window, and cuts it as if nobody had waited', () => {
    const { chunks, sender } = make(3, 2);
    for (let answer = 0; answer < 4; answer++) sender.add(tokens(answer, answer), null, true, 0);
    sender.add(tokens(9, 9, 9, 9), null, true, 0);
    sender.end(0);
    expect(chunks.length).toBe(2);
    expect(sender.numUnsent).toBe(8);
    for (let number = 1; chunks.at(-1)?.isLast !== true; number++) sender.taken(number, 0);
    expect(seen(chunks)).toEqual([
      [[0, 0], false],
      [[1, 1], false],
      [[2, 2], false],
      [[3, 3], false],
      [[9, 9, 9], false],
      [[9], false],
      [[], true],
    ]);
  });

  it('takes back no number twice, none that was not sent, and none behind', () => {
    const { sender } = make(1, 3);
    sender.add(tokens(1, 2, 3), null, false, 0);
    expect([sender.taken(2, 5), sender.taken(2, 5), sender.taken(1, 5)]).toEqual([true, false, false]);
    expect([sender.taken(4, 5), sender.taken(0, 5), sender.taken(3, 5)]).toEqual([false, false, true]);
  });

  it('waits since its oldest chunk went out, or since news of it', () => {
    const { sender } = make(1, 2);
    expect([sender.waitsSince, sender.numWaiting]).toEqual([-1, 0]);
    sender.add(tokens(1), null, false, 10);
    sender.add(tokens(2), null, false, 20);
    sender.add(tokens(3), null, false, 30);
    expect([sender.waitsSince, sender.numWaiting]).toEqual([10, 1]);
    sender.taken(1, 50);
    expect([sender.waitsSince, sender.numWaiting]).toEqual([50, 2]);
    sender.taken(3, 60);
    expect([sender.waitsSince, sender.numWaiting]).toEqual([-1, 0]);
  });

  it('keeps each extra with its token, also where some outputs have none', () => {
    const { chunks, sender } = make(2, 9);
    sender.add(tokens(1), null, false, 0);
    sender.add(tokens(2, 3), ['b', 'c'], false, 0);
    sender.add(tokens(4, 5), null, true, 0);
    expect(chunks.map(({ extras }) => extras)).toEqual([[undefined, 'b'], ['c', undefined], [undefined]]);
  });

  for (let seed = 0; seed < 20; seed++)
    it(`seed ${seed}: cuts by tokens alone, whatever the window and however late it is taken`, () => {
      const next = seeded(seed);
      const size = 1 + next(5);
      const answers = Array.from({ length: 1 + next(12) }, (_, a) =>
        Array.from({ length: 1 + next(90) }, (_, i) => a * 1000 + i),
      );
      const expected = answers.flatMap((answer) =>
        Array.from({ length: Math.ceil(answer.length / size) }, (_, i) =>
          answer.slice(i * size, (i + 1) * size),
        ),
      );
      const window = 1 + next(4);
      const { chunks, sender } = make(size, window);
      let taken = 0;
      const maybeTake = () => {
        while (taken < chunks.length && next(3) === 0) sender.taken(++taken, 0);
      };
      for (const answer of answers)
        for (let at = 0; at < answer.length; ) {
          const end = Math.min(answer.length, at + 1 + next(7));
          const part = answer.slice(at, end);
          sender.add(Int32Array.from(part), part.map(String), end === answer.length, 0);
          at = end;
          maybeTake();
          expect(chunks.length - taken).toBeLessThanOrEqual(window);
        }
      sender.end(0);
      while (!sender.isOver) sender.taken(++taken, 0);
      const withTokens = chunks.filter((chunk) => chunk.tokens.length > 0);
      expect(withTokens.map((chunk) => [...chunk.tokens])).toEqual(expected);
      expect(withTokens.map(({ extras }) => extras)).toEqual(expected.map((piece) => piece.map(String)));
      expect(chunks.map(({ isLast }) => isLast).indexOf(true)).toBe(chunks.length - 1);
    });
});
