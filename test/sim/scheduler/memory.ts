import type { Text } from '../shared/text.js';

/** What no text leaves anywhere. */
const GARBAGE = -1;

/** Who writes: the blocks of a request as they were handed to it, and when each was. */
export interface Holding {
  readonly name: string;
  readonly blocks: readonly number[];
  /** Of each block, in the order in which blocks were handed out. */
  readonly turns: readonly number[];
}

/**
 * The KV cache as a device has it: what stands at each position of each block, on which ranks, and in whose turn it was
 * written. Wrong bookkeeping shows here as wrong data. A write in an older turn over one in a newer turn is a write into a
 * block that belongs to somebody else by now.
 */
export class Memory {
  readonly #blockSize: number;
  readonly #content: Int32Array;
  readonly #turns: Int32Array;
  /** Ranks on which the content stands, as bits. */
  readonly #ranks: Uint8Array;
  readonly #allRanks: number;

  /**
   * Whether whoever got the block in that turn may write over what another turn left: it has the block still, or shared it with
   * the other, since both compute the same then.
   */
  readonly #mayWrite: (block: number, turn: number, over: number) => boolean;

  constructor(
    numBlocks: number,
    blockSize: number,
    numRanks: number,
    mayWrite: (block: number, turn: number, over: number) => boolean,
  ) {
    this.#mayWrite = mayWrite;
    this.#blockSize = blockSize;
    this.#content = new Int32Array(numBlocks * blockSize).fill(GARBAGE);
    this.#turns = new Int32Array(numBlocks * blockSize);
    this.#ranks = new Uint8Array(numBlocks * blockSize);
    this.#allRanks = 2 ** numRanks - 1;
  }

  /** Index of the block of a position in its request's list. */
  blockIndex(position: number): number {
    return Math.floor(position / this.#blockSize);
  }

  /** The model's weights have changed: nothing that stands here means anything any more. */
  forget(): void {
    this.#content.fill(GARBAGE);
  }

  /** The first position below `end` that does not hold the text on every rank, or -1. */
  firstWrong(text: Text, holding: Holding, end: number): number {
    for (let p = 0; p < end; p++) {
      const at = this.#at(holding, p);
      if (this.#content[at] !== text.print(p) || this.#ranks[at] !== this.#allRanks) return p;
    }
    return -1;
  }

  /**
   * Writes positions [from, to) on some ranks; `text` null writes garbage.
   * @returns what went wrong, or null
   */
  write(
    text: Text | null,
    holding: Holding,
    from: number,
    to: number,
    ranks = this.#allRanks,
  ): string | null {
    let wrong: string | null = null;
    for (let p = from; p < to; p++) {
      const index = Math.floor(p / this.#blockSize);
      if (index >= holding.blocks.length) return `${holding.name} has no block for position ${p}`;
      const at = this.#at(holding, p);
      const turn = holding.turns[index];
      const over = this.#turns[at];
      if (over > turn && !this.#mayWrite(holding.blocks[index], turn, over)) {
        wrong = `${holding.name} writes position ${p} into block ${holding.blocks[index]} over a later owner's`;
      }
      const content = text === null ? GARBAGE : text.print(p);
      if (this.#content[at] === content) this.#ranks[at] |= ranks;
      else this.#ranks[at] = ranks;
      this.#content[at] = content;
      this.#turns[at] = Math.max(turn, this.#turns[at]);
    }
    return wrong;
  }

  #at({ blocks }: Holding, position: number): number {
    const block = Math.floor(position / this.#blockSize);
    return blocks[block] * this.#blockSize + (position % this.#blockSize);
  }
}
