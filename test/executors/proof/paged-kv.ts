import type { StepTables } from 'blockstep';
import { attend } from './model.js';

/** The KV memory: a number for each slot, and whether anybody wrote it since its block was given out. */
export class PagedKv {
  readonly #blockSize: number;
  readonly #values: Int32Array;
  readonly #written: Uint8Array;
  /** Reads of slots that hold nothing: each of them is a wrong slot, a wrong position or a step out of order. */
  unwrittenReads = 0;

  constructor(numBlocks: number, blockSize: number) {
    this.#blockSize = blockSize;
    this.#values = new Int32Array(numBlocks * blockSize);
    this.#written = new Uint8Array(numBlocks * blockSize);
  }

  write(slot: number, value: number): void {
    this.#values[slot] = value;
    this.#written[slot] = 1;
  }

  /** Forgets the content of a block, so that a read of its last owner's KV is noticed. */
  take(block: number): void {
    const from = block * this.#blockSize;
    this.#written.fill(0, from, from + this.#blockSize);
  }

  /** Reads the positions from `from` to `to` of a row of the block table, one after the other. */
  attend(tables: StepTables, entry: number, attended: number, from: number, to: number): number {
    const row = entry * tables.maxBlocksPerRow;
    let result = attended;
    for (let p = from; p < to; p++) {
      const block = tables.blockTable[row + Math.floor(p / this.#blockSize)] ?? 0;
      const slot = block * this.#blockSize + (p % this.#blockSize);
      if (this.#written[slot] !== 1) this.unwrittenReads++;
      result = attend(result, this.#values[slot] ?? 0);
    }
    return result;
  }
}
