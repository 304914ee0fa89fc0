// The turns of copies, over cells without llama.cpp: large jobs, and sequences that run out.
import { describe, expect, it } from 'vitest';
import { CellMap } from '../../../../src/executors/llama-cpp/cells/cell-map.js';
import { Moves } from '../../../../src/executors/llama-cpp/cells/moves.js';
import { CellCopies, type CopyJob } from '../../../../src/executors/llama-cpp/kv/cell-copies.js';
import type { NativeContext, NativeCopies } from '../../../../src/executors/llama-cpp/native/binding.js';
import { Verdict } from '../../../../src/transfer/verdict.js';

const SIZE = 4;

/** Copies over a fake context, which says what it was asked for. */
function setUp(blockBytes: number, numSequences = 3) {
  const moves = new Moves();
  const cells = new CellMap(
    { numBlocks: 12, blockSize: SIZE, maxBlocks: 8, numSequences, keepsPrefixes: true },
    moves,
  );
  const asked: number[][] = [];
  let answer: ((ends: number[], failure?: string) => void) | null = null;
  const ends = { waited: null as NativeCopies | null };
  const context = {
    blockBytes: () => blockBytes,
    // Place p of an arena holds the block at place p of its text.
    placeOf: (_: number, place: number) => place * SIZE,
    copy: (given: Int32Array, size: number) => {
      const list: number[] = [];
      for (let at = 0; at < size; at += 5) if (given[at] > 1) list.push(given[at + 2]);
      asked.push(list);
      return new Promise<NativeCopies>((resolve) => {
        answer = (all, failure = '') => resolve({ ends: Int32Array.from(all), failure });
      });
    },
    waitForCopies: () => ends.waited,
  };
  const copies = new CellCopies({
    ...{ context: context as unknown as NativeContext, cells, blockSize: SIZE, maxBlocks: 8 },
    ...{ moves: () => moves, wake: () => {} },
  });
  const over = new Map<string, Verdict>();
  const add = (name: string, isSave: boolean, blocks: number[], places: number[]): CopyJob => {
    const job: CopyJob = {
      ...{ isSave, blocks: Int32Array.from(blocks), places: Int32Array.from(places), arena: 0 },
      end: (verdict) => over.set(name, verdict),
    };
    copies.add(job);
    return job;
  };
  /** One turn, with so many copies that are made. */
  const turn = async (...given: number[]): Promise<void> => {
    const run = copies.run();
    answer?.(given);
    await run;
  };
  const answerTo = () => answer;
  return { copies, cells, asked, over, add, turn, ends, answerTo, fail: () => answer?.([], 'planted') };
}

/** Gives a block all its tokens, in a sequence of its own that keeps it. */
function compute(cells: CellMap, block: number, place: number): void {
  const sequence = cells.open()!;
  cells.give(block, sequence, place);
  cells.fill(block, SIZE);
  cells.retire(sequence);
}

describe('turns of copies', () => {
  it('have at most 64 MiB, and later jobs wait', async () => {
    const { copies, cells, asked, over, add, turn } = setUp(2 ** 25);
    for (const block of [1, 2, 3]) compute(cells, block, block);
    add('save', true, [1, 2, 3], [1, 2, 3]);
    add('load', false, [4, 5], [4, 5]);
    await turn(0, 0);
    expect([...over]).toEqual([]);
    await turn(0, 0);
    expect([...over]).toEqual([['save', Verdict.ok]]);
    expect(copies.isWaiting).toBe(true);
    await turn(0);
    expect([...over]).toEqual([
      ['save', Verdict.ok],
      ['load', Verdict.ok],
    ]);
    expect(asked).toEqual([[1, 2], [3, 4], [5]]);
    expect(cells.isThere(4, 4, SIZE) && cells.isThere(5, 5, SIZE)).toBe(true);
    await copies.run();
    expect(asked.length).toBe(3);
  });

  it('carry one block at least', async () => {
    const { asked, cells, add, turn } = setUp(2 ** 30);
    for (const block of [1, 2]) compute(cells, block, block);
    add('save', true, [1, 2], [1, 2]);
    await turn(0);
    await turn(0);
    expect(asked).toEqual([[1], [2]]);
  });

  it('leave a job that failed, or was cancelled between two turns', async () => {
    const { copies, cells, over, add, turn, asked } = setUp(2 ** 25);
    for (const block of [1, 2, 3, 4, 5, 6]) compute(cells, block, block);
    add('fails', true, [1, 2, 3], [1, 2, 3]);
    const cancelled = add('cancelled', true, [4, 5, 6], [4, 5, 6]);
    await turn(0, 8);
    expect(over.get('fails')).toBe(Verdict.failed);
    await turn(0, 0);
    expect(copies.cancel(cancelled)).toBe(true);
    expect(over.get('cancelled')).toBe(Verdict.cancelled);
    expect(copies.isWaiting).toBe(false);
    expect(asked).toEqual([
      [1, 2],
      [4, 5],
    ]);
  });

  it('cancel a job whose copies have begun when they are over', async () => {
    const { copies, cells, over, add, turn, ends } = setUp(2 ** 25);
    for (const block of [1, 2, 3]) compute(cells, block, block);
    const [half, whole] = [add('half', true, [1, 2, 3], [1, 2, 3]), add('whole', true, [1], [1])];
    const run = copies.run();
    expect(copies.cancel(half)).toBe(true);
    expect(over.size).toBe(0);
    ends.waited = { ends: Int32Array.of(0, 0), failure: '' };
    copies.flush(new Set([half]));
    expect([...over]).toEqual([['half', Verdict.cancelled]]);
    await run;
    await turn(0);
    expect(over.get('whole')).toBe(Verdict.ok);
    expect(copies.cancel(whole)).toBe(false);
  });

  it('do not take the ends of copies that were waited for for those of later ones', async () => {
    const { copies, cells, over, add, ends, answerTo } = setUp(2 ** 25);
    for (const block of [1, 2]) compute(cells, block, block);
    const first = add('first', true, [1], [1]);
    const run = copies.run();
    const late = answerTo();
    ends.waited = { ends: Int32Array.of(0), failure: '' };
    copies.flush(new Set([first]));
    await run;
    add('second', true, [2], [2]);
    const next = copies.run();
    late?.([0]);
    await new Promise((resolve) => setImmediate(resolve));
    expect([...over.keys()]).toEqual(['first']);
    answerTo()?.([8]);
    await next;
    expect(over.get('second')).toBe(Verdict.failed);
  });

  it('give a failed load no cells', async () => {
    const { copies, cells, over, add, turn } = setUp(1);
    compute(cells, 1, 0);
    add('load', false, [1, 2, 3], [1, 2, 3]);
    await turn(0, 7, 0);
    expect(over.get('load')).toBe(Verdict.failed);
    expect(copies.counts).toMatchObject({ loaded: 2, refused: { damaged: 1 } });
    // The block's old cells went as well.
    expect(cells.isThere(1, 0, SIZE)).toBe(false);
    expect([1, 2, 3].map((block) => cells.isThere(block, block, SIZE))).toEqual([true, false, true]);
    expect(cells.cells).toBe(2 * SIZE);
  });

  it('fail a load that finds no sequence, or reads a place behind the longest text', async () => {
    const { copies, cells, over, add, turn } = setUp(1, 1);
    add('far', false, [1], [8]);
    await turn();
    expect(over.get('far')).toBe(Verdict.failed);
    expect(copies.counts.refused).toMatchObject({ shape: 1 });
    // A request has the only sequence.
    expect(cells.open()).toBe(0);
    add('none', false, [1], [1]);
    add('empty', false, [], []);
    await turn();
    expect(over.get('none')).toBe(Verdict.failed);
    expect(over.get('empty')).toBe(Verdict.ok);
    expect(copies.counts.refused).toMatchObject({ noSequence: 1 });
  });

  it('end all jobs if cells were not moved, or with the executor', async () => {
    const { copies, cells, over, add, fail } = setUp(1);
    compute(cells, 1, 1);
    add('save', true, [1], [1]);
    const run = copies.run();
    fail();
    await expect(run).rejects.toThrow(/planted/);
    copies.dispose();
    add('late', true, [1], [1]);
    expect(over.get('late')).toBe(Verdict.cancelled);
    const other = setUp(1);
    compute(other.cells, 1, 1);
    other.add('save', true, [1], [1]);
    const never = other.copies.run();
    other.copies.dispose();
    await never;
    expect(other.over.get('save')).toBe(Verdict.cancelled);
  });
});
