// The map agrees with a list of cells to which its moves are applied, in random lives.
import { describe, expect, it } from 'vitest';
import { Random } from '../../../../src/base/random.js';
import { CellMap } from '../../../../src/executors/llama-cpp/cells/cell-map.js';
import { Moves } from '../../../../src/executors/llama-cpp/cells/moves.js';

/** The cells of llama.cpp as a list: each has a position, and the sequences that have it. Nothing is known of blocks. */
class NaiveCells {
  cells: { readonly position: number; readonly of: Set<number> }[] = [];

  /** Does what the map asks for, in order. */
  run(moves: Moves): void {
    for (let at = 0; at < moves.list.length; at += 5) {
      const [kind, sequence, target, from, to] = moves.list.values.subarray(at, at + 5);
      for (const { position, of } of this.cells) {
        if (!of.has(sequence) || position < from || (to >= 0 && position >= to)) continue;
        if (kind === 1) of.add(target);
        else of.delete(sequence);
      }
      this.cells = this.cells.filter(({ of }) => of.size > 0);
    }
    moves.clear();
  }

  compute(sequence: number, from: number, to: number): void {
    for (let position = from; position < to; position++)
      this.cells.push({ position, of: new Set([sequence]) });
  }

  of(sequence: number): number[] {
    return this.cells.filter(({ of }) => of.has(sequence)).map(({ position }) => position);
  }

  /** The sequences that have the cell at a position, of each cell there. */
  at(position: number): string[] {
    return this.cells.filter((cell) => cell.position === position).map(({ of }) => [...of].sort().join());
  }
}

/** The cells of a request's sequence: its blocks by their places, and its number of tokens. */
interface Text {
  readonly sequence: number;
  readonly blocks: number[];
  length: number;
}

const SIZE = 4;
const BLOCKS = 14;
const PLACES = 6;

/** A life of a map: requests come, hit blocks of others, compute, take tokens back and end, in any order. */
function live(seed: number): { shared: number; dropped: number; most: number } {
  const random = new Random(seed);
  const numSequences = 2 + random.below(6);
  const moves = new Moves();
  const cells = new CellMap(
    {
      numBlocks: BLOCKS,
      blockSize: SIZE,
      maxBlocks: PLACES,
      numSequences,
      keepsPrefixes: random.below(8) > 0,
    },
    moves,
  );
  const naive = new NaiveCells();
  const texts: Text[] = [];
  let [shared, most] = [0, 0];
  const usedBy = (block: number): number => texts.filter(({ blocks }) => blocks.includes(block)).length;

  /** A block that no request has, for new tokens; a holder may have it. */
  const unused = (): number | undefined => {
    const free = Array.from({ length: BLOCKS }, (_, block) => block).filter((block) => usedBy(block) === 0);
    return free[random.below(free.length)];
  };
  const grow = (text: Text, tokens: number): void => {
    for (let left = tokens; left > 0 && text.length < PLACES * SIZE; ) {
      const place = Math.floor(text.length / SIZE);
      if (place === text.blocks.length) {
        const block = unused();
        if (block === undefined) return;
        text.blocks.push(block);
        cells.give(block, text.sequence, place);
        naive.run(moves);
      }
      const to = Math.min(text.length + left, (place + 1) * SIZE);
      cells.fill(text.blocks[place], to - place * SIZE);
      naive.compute(text.sequence, text.length, to);
      left -= to - text.length;
      text.length = to;
    }
  };
  const hit = (text: Text): void => {
    const place = text.blocks.length;
    if (text.length !== place * SIZE || place === PLACES) return;
    const there = Array.from({ length: BLOCKS }, (_, block) => block).filter((block) =>
      cells.isThere(block, place, SIZE),
    );
    const block = there[random.below(there.length)];
    if (block === undefined) return;
    const owner = cells.ownerOf(block, random.below(numSequences));
    cells.touch(owner);
    cells.share(block, text.sequence);
    moves.copy(owner, text.sequence, place * SIZE, (place + 1) * SIZE);
    text.blocks.push(block);
    text.length += SIZE;
    shared++;
  };
  const cut = (text: Text): void => {
    const place = Math.max(0, text.blocks.length - 1);
    const least = usedBy(text.blocks[place]) > 1 || isKept(text, place) ? text.length : place * SIZE;
    const length = random.below(3) === 0 ? random.below(place + 1) * SIZE : least;
    if (length > text.length) return;
    cells.truncate(text.sequence, length);
    text.blocks.length = Math.ceil(length / SIZE);
    text.length = length;
  };
  /** Whether another sequence has a block of a text: that of a holder. */
  const isKept = ({ sequence }: Text, place: number): boolean =>
    naive
      .at(place * SIZE)
      .some((owners) => owners.split(',').includes(String(sequence)) && owners.includes(','));

  for (let step = 0; step < 120; step++) {
    if (random.below(4) === 0) cells.beginStep();
    const text = texts[random.below(texts.length)];
    const what = random.below(9);
    if (text === undefined || what === 0) {
      const sequence = texts.length < numSequences ? cells.open() : null;
      if (sequence !== null) texts.push({ sequence, blocks: [], length: 0 });
    } else if (what < 4) hit(text);
    else if (what < 6) grow(text, 1 + random.below(9));
    else if (what === 6) cut(text);
    else {
      texts.splice(texts.indexOf(text), 1);
      if (random.below(4) === 0) cells.drop(text.sequence);
      else cells.retire(text.sequence);
    }
    naive.run(moves);
    check(cells, naive, texts, step);
    most = Math.max(most, naive.cells.length);
  }
  return { shared, dropped: cells.holdersDropped, most };
}

function check(cells: CellMap, naive: NaiveCells, texts: readonly Text[], step: number): void {
  const where = `step ${step}`;
  expect(naive.cells.length, where).toBe(cells.cells);
  expect(naive.cells.length, where).toBeLessThanOrEqual(BLOCKS * SIZE);
  for (const { sequence, blocks, length } of texts) {
    // A text has one cell for each of its positions, and of a block all who have it have the same cells.
    const positions = naive.of(sequence).sort((a, b) => a - b);
    if (positions.length !== length || positions.at(-1) !== (length === 0 ? undefined : length - 1))
      throw new Error(`${where}: sequence ${sequence} of ${length} tokens has the positions ${positions}`);
    for (const [place, block] of blocks.entries())
      if (!cells.has(sequence, place, block)) throw new Error(`${where}: ${block} is not at ${place}`);
  }
  // A block that the map reports is there, whole, in each sequence that has a part of it.
  for (let block = 0; block < BLOCKS; block++)
    for (let place = 0; place < PLACES; place++) {
      if (!cells.isThere(block, place, SIZE)) continue;
      const owner = cells.ownerOf(block, -1);
      const owners = [0, 1, 2, 3].map((i) =>
        naive.at(place * SIZE + i).find((each) => each.split(',').includes(String(owner))),
      );
      if (owners[0] === undefined || new Set(owners).size > 1)
        throw new Error(`${where}: block ${block} at ${place} has cells of ${owners.join(' and ')}`);
    }
}

describe('a map of cells', () => {
  it('says of a list of cells what is in it, whatever requests do', () => {
    const sum = { shared: 0, dropped: 0, most: 0 };
    for (let seed = 1; seed <= Number(process.env['BLOCKSTEP_CELL_SEEDS'] ?? 40); seed++) {
      let life: ReturnType<typeof live>;
      try {
        life = live(seed);
      } catch (error) {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
      }
      sum.shared += life.shared;
      sum.dropped += life.dropped;
      sum.most = Math.max(sum.most, life.most);
    }
    // Cases that the seeds must have met, so that they prove something.
    expect(sum.shared).toBeGreaterThan(100);
    expect(sum.dropped).toBeGreaterThan(20);
    expect(sum.most).toBeGreaterThan(BLOCKS * SIZE * 0.8);
  });
});
