// The cutting of a step into calls.
import { describe, expect, it } from 'vitest';
import { Program } from '../../../../src/executors/llama-cpp/step/program.js';

/** A range of a wave: how many tokens, and how many of them are drafts; -1: it does not sample. */
type Entry = readonly [tokens: number, drafts: number];

/** The tokens of each call that a wave becomes, and the entries in the order in which they sample. */
function callsOf(entries: readonly Entry[], shape: { batch: number; splitFrom: number; outputs: number }) {
  const program = new Program(shape);
  for (const [entry, [tokens, drafts]] of entries.entries()) {
    program.add(0, entry, entry, 0, tokens);
    if (drafts >= 0) program.sample(0, drafts, -1);
  }
  const { values } = program.write(entries.length);
  const calls: number[] = [];
  let at = 1;
  for (let call = 0; call < values[0]; call++) {
    const [moves, tokens, samples] = values.subarray(at, at + 4);
    calls.push(tokens);
    at += 4 + 5 * moves + 3 * tokens + 4 * samples;
  }
  return { calls, sampling: [...program.sampling] };
}

const ON_CPU = { batch: 512, splitFrom: 64, outputs: 512 };
const decodes = (count: number, drafts = 0): Entry[] =>
  Array.from({ length: count }, () => [1 + drafts, drafts]);

describe('the calls of a step', () => {
  it('are one while few tokens are computed', () => {
    expect(callsOf([...decodes(3), [60, 0]], ON_CPU).calls).toEqual([63]);
  });

  it('are decodes first, then prompts, where a call of both would be computed in tiles', () => {
    const { calls, sampling } = callsOf([[100, 0], ...decodes(3), [200, -1]], ON_CPU);
    expect(calls).toEqual([3, 300]);
    expect(sampling).toEqual([1, 2, 3, 0]);
  });

  it('have fewer decodes than a tile has rows, about equally many in each', () => {
    expect(callsOf(decodes(63), ON_CPU).calls).toEqual([63]);
    expect(callsOf(decodes(64), ON_CPU).calls).toEqual([32, 32]);
    expect(callsOf(decodes(130), ON_CPU).calls).toEqual([44, 44, 42]);
    expect(callsOf([...decodes(100), [100, 0]], ON_CPU).calls).toEqual([50, 50, 100]);
  });

  it('keep the drafts of a decode together, however many they are', () => {
    expect(callsOf(decodes(20, 4), ON_CPU).calls).toEqual([50, 50]);
    expect(callsOf(decodes(2, 64), ON_CPU).calls).toEqual([65, 65]);
  });

  it('are as large as a batch on a GPU', () => {
    const shape = { batch: 128, splitFrom: Number.POSITIVE_INFINITY, outputs: 128 };
    expect(callsOf([[100, 0], ...decodes(50)], shape).calls).toEqual([128, 22]);
  });

  it('have one adapter each, that of the call before first', () => {
    const program = new Program({ ...ON_CPU, splitFrom: Number.POSITIVE_INFINITY });
    const adaptersOf = (adapters: readonly number[]): number[][] => {
      for (const [entry, adapter] of adapters.entries()) {
        program.add(0, entry, entry, 0, 2, adapter);
        program.sample(0, 0, -1);
      }
      const { values } = program.write(adapters.length);
      const calls: number[][] = [];
      let at = 1;
      for (let call = 0; call < values[0]; call++) {
        const [moves, tokens, samples, adapter] = values.subarray(at, at + 4);
        calls.push([adapter, tokens]);
        at += 4 + 5 * moves + 3 * tokens + 4 * samples;
      }
      return calls;
    };
    expect(adaptersOf([0, -1, 0, 1])).toEqual([
      [-1, 2],
      [0, 4],
      [1, 2],
    ]);
    expect([...program.sampling]).toEqual([1, 0, 2, 3]);
    expect(adaptersOf([-1, 1, 1])).toEqual([
      [1, 4],
      [-1, 2],
    ]);
    expect(adaptersOf([0, 0])).toEqual([[0, 4]]);
  });

  it('have few tokens where all of them say how likely the next one is, and each row knows it', () => {
    const program = new Program({ ...ON_CPU, outputs: 4 });
    program.add(0, 0, 7, 10, 19);
    program.tokens.set([10, 11, 12, 13, 14, 15, 16, 17, 18]);
    program.sample(0, 0, 5);
    program.score(0, 18, 18, 3);
    program.add(0, 1, 8, 0, 1);
    program.tokens.set([99], 9);
    program.sample(0, 0, -1);
    const { values, length } = program.write(2);
    const samples: number[][] = [];
    const calls: number[] = [];
    for (let at = 1; at < length; ) {
      const [moves, tokens, count] = values.subarray(at, at + 4);
      calls.push(tokens);
      at += 4 + 5 * moves + 3 * tokens;
      for (let i = 0; i < count; i++, at += 4) samples.push([...values.subarray(at, at + 4)]);
    }
    expect(calls).toEqual([1, 4, 4, 1]);
    // The row, how many follow it, -2 less the likeliest tokens, the token behind the last row; and
    // the sampled entries.
    expect(samples).toEqual([
      [0, 0, -1, 1],
      [0, 3, -5, 14],
      [0, 3, -5, 18],
      [0, 0, 5, 19],
    ]);
    expect([[...program.sampling], [...program.scored]]).toEqual([
      [1, 0, 0, 0],
      [-1, 11, 15, -1],
    ]);
  });
});
