// The sequences that keep blocks, and the time when they are given up.
import { describe, expect, it } from 'vitest';
import { CellMap } from '../../../../src/executors/llama-cpp/cells/cell-map.js';
import { Moves } from '../../../../src/executors/llama-cpp/cells/moves.js';

const SIZE = 4;

function make(numSequences: number): CellMap {
  return new CellMap(
    { numBlocks: 20, blockSize: SIZE, maxBlocks: 8, numSequences, keepsPrefixes: true },
    new Moves(),
  );
}

/** A request that computes blocks from the begin of its text on, and ends. @returns its sequence, which is a holder now */
function holder(cells: CellMap, blocks: readonly number[]): number {
  const sequence = cells.open() as number;
  for (const [place, block] of blocks.entries()) {
    cells.give(block, sequence, place);
    cells.fill(block, SIZE);
  }
  cells.retire(sequence);
  return sequence;
}

describe('sequences that keep prefixes', () => {
  it('are given up, the longest unused one first, when a request needs a sequence', () => {
    const cells = make(2);
    holder(cells, [1, 2]);
    holder(cells, [3]);
    expect(cells.numHolders).toBe(2);
    expect(cells.open()).not.toBeNull();
    expect([cells.isThere(1, 0, SIZE), cells.isThere(3, 0, SIZE)]).toEqual([false, true]);
    expect(cells.holdersDropped).toBe(1);
    expect(cells.cells).toBe(SIZE);
  });

  it('are not given up while a later wave of the step copies from them', () => {
    const cells = make(3);
    const first = holder(cells, [1]);
    const second = holder(cells, [2]);
    cells.beginStep();
    expect(cells.hold(first, 1)).toBe(true);
    cells.open();
    cells.open();
    expect([cells.isThere(1, 0, SIZE), cells.isThere(2, 0, SIZE)]).toEqual([true, false]);
    expect(cells.open()).toBeNull();
    cells.beginStep();
    expect(cells.open()).toBe(first);
    expect(second).not.toBe(first);
  });

  it('are not kept from requests of the step that need a sequence', () => {
    const cells = make(2);
    const first = holder(cells, [1]);
    const second = holder(cells, [2]);
    cells.beginStep();
    expect(cells.hold(first, 2)).toBe(false);
    expect(cells.hold(first, 1)).toBe(true);
    expect(cells.hold(second, 1)).toBe(false);
    // Cells that are held already cost nothing more, and neither does the sequence of a request.
    expect(cells.hold(first, 1)).toBe(true);
  });

  it('have blocks of several requests, where these stand at other places', () => {
    const cells = make(4);
    const first = holder(cells, [1, 2]);
    const sequence = cells.open() as number;
    for (const [place, block] of [1, 2].entries()) {
      expect(cells.ownerOf(block, -1)).toBe(first);
      expect(cells.isThere(block, place, SIZE)).toBe(true);
      cells.share(block, sequence);
    }
    cells.give(3, sequence, 2);
    cells.fill(3, SIZE);
    cells.retire(sequence);
    expect(cells.numHolders).toBe(1);
    expect([cells.has(first, 2, 3), cells.has(sequence, 2, 3)]).toEqual([true, false]);
    expect(cells.cells).toBe(3 * SIZE);
  });

  it('let go of a block that is given out anew', () => {
    const cells = make(3);
    holder(cells, [1]);
    const sequence = cells.open() as number;
    cells.give(1, sequence, 3);
    expect([cells.numHolders, cells.cells, cells.isThere(1, 0, 1)]).toEqual([0, 0, false]);
    expect(() => cells.check(0)).not.toThrow();
    cells.fill(1, 2);
    expect(() => cells.check(1)).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_INVARIANT' }));
  });
});
