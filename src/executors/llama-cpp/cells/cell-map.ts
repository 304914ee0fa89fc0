import { BlockstepError } from '../../../base/errors.js';
import type { Moves } from './moves.js';

/** Sizes of a `CellMap`. */
export interface CellMapSizes {
  readonly numBlocks: number;
  readonly blockSize: number;
  /** Most blocks of a request. */
  readonly maxBlocks: number;
  /** Sequences of llama.cpp's cache. */
  readonly numSequences: number;
  /** Whether blocks of ended requests are kept for the prefix cache. */
  readonly keepsPrefixes: boolean;
}

/**
 * Records which cells of llama.cpp's cache hold the KV of which block. Blockstep names blocks.
 * llama.cpp chooses cells, and knows a cell by its position and its sequences. A block is therefore
 * the cells at the block's positions of any sequence that owns the block.
 *
 * A sequence belongs to a request that has blocks, or it is a holder. A holder keeps the cells of
 * blocks whose requests have ended.
 *
 * **Invariant.** A block has one place in the texts of its owners. At the positions of this place
 * all owners have the same cells, one for each computed token of the block. No other sequence has
 * these cells, and every cell of the cache belongs to a block in this way. So the cache has as many
 * cells as all blocks have tokens, never more than (numBlocks - 1) x blockSize. Four rules
 * keep the invariant:
 *
 * - `give` takes a reused block from all its owners first, which frees its cells.
 * - A hit adds an owner to the existing cells (`share`) and makes no new cells, also if the same
 *   step computes them.
 * - A hit whose cells are gone is computed again into a block without owners (`give`). The new
 *   cells are the block's only cells, and later hits share them.
 * - `truncate` removes rejected drafts from their sequence.
 *
 * `cells` counts the tokens of all blocks. No step begins with more tokens than the cache has
 * cells.
 */
export class CellMap {
  /** [block] the sequences that have the block's cells. */
  readonly #owners: number[][];
  /** [block] the block's place in its owners' texts: positions from place x blockSize on. */
  readonly #places: Int32Array;
  /** [block] tokens that have cells, from the place on; 0 for a block without owners. */
  readonly #fills: Int32Array;
  /** [sequence][place] the block that the sequence owns there; -1: no block. */
  readonly #rows: readonly Int32Array[];
  /** [sequence] number of blocks that the sequence owns. */
  readonly #counts: Int32Array;
  readonly #free: number[];
  /** Holders, the least recently used first. */
  readonly #holders = new Set<number>();
  /** Holders that a later wave of the step copies from. */
  readonly #held = new Set<number>();
  #cells = 0;
  #holdersDropped = 0;
  readonly #blockSize: number;
  readonly #maxBlocks: number;
  readonly #keepsPrefixes: boolean;
  readonly #moves: Moves;

  /** @param moves records the operations that llama.cpp's cache needs, in order */
  constructor(sizes: CellMapSizes, moves: Moves) {
    const { numBlocks, blockSize, maxBlocks, numSequences, keepsPrefixes } = sizes;
    this.#blockSize = blockSize;
    this.#maxBlocks = maxBlocks;
    this.#keepsPrefixes = keepsPrefixes;
    this.#moves = moves;
    this.#owners = Array.from({ length: numBlocks }, () => []);
    this.#places = new Int32Array(numBlocks);
    this.#fills = new Int32Array(numBlocks);
    this.#rows = Array.from({ length: numSequences }, () => new Int32Array(maxBlocks).fill(-1));
    this.#counts = new Int32Array(numSequences);
    this.#free = Array.from({ length: numSequences }, (_, i) => numSequences - 1 - i);
  }

  /** Cells in use: tokens of all blocks. */
  get cells(): number {
    return this.#cells;
  }

  get numHolders(): number {
    return this.#holders.size;
  }

  /** Holders that were dropped for lack of sequences, although their blocks might have been hit. */
  get holdersDropped(): number {
    return this.#holdersDropped;
  }

  /**
   * Opens an empty sequence.
   * @returns null if all sequences belong to requests and to holders that are still needed
   */
  open(): number | null {
    if (this.#free.length === 0) {
      for (const holder of this.#holders) {
        if (this.#held.has(holder)) continue;
        this.#holdersDropped++;
        this.drop(holder);
        break;
      }
    }
    return this.#free.pop() ?? null;
  }

  /** Begins a step: holders of the last step may be dropped again. */
  beginStep(): void {
    this.#held.clear();
  }

  /**
   * Keeps a sequence unchanged to the end of the step.
   * @param toOpen sequences that the step may still want to open
   * @returns false if too few sequences would be left
   */
  hold(sequence: number, toOpen: number): boolean {
    if (!this.#holders.has(sequence) || this.#held.has(sequence)) return true;
    if (this.#free.length + this.#holders.size - this.#held.size - 1 < toOpen) return false;
    this.#held.add(sequence);
    return true;
  }

  /** Whether a sequence has a block at a place. */
  has(sequence: number, place: number, block: number): boolean {
    return this.#rows[sequence][place] === block;
  }

  /** Whether the first `tokens` tokens of a block have cells at this place. */
  isThere(block: number, place: number, tokens: number): boolean {
    return this.#fills[block] >= tokens && this.#places[block] === place;
  }

  /** A sequence that owns the block's cells: `preferred` if it is an owner. */
  ownerOf(block: number, preferred: number): number {
    const owners = this.#owners[block];
    return owners.includes(preferred) ? preferred : owners[0];
  }

  /**
   * Where the cells of a whole block are: one of its owners, and its first position. Null: some of
   * its tokens have no cells.
   */
  wholeBlock(block: number): { readonly sequence: number; readonly from: number } | null {
    if (this.#fills[block] < this.#blockSize) return null;
    return { sequence: this.#owners[block][0], from: this.#places[block] * this.#blockSize };
  }

  /** Whether another sequence has the block's cells, so that this one must not write into it. */
  isOfOthers(block: number, sequence: number): boolean {
    return this.#owners[block].some((owner) => owner !== sequence);
  }

  /** Gives a block to a new owner. All old owners lose its cells. `fill` adds the tokens. */
  give(block: number, sequence: number, place: number): void {
    for (const owner of this.#owners[block]) this.#let(owner, block, true);
    this.#owners[block].length = 0;
    this.#setFill(block, 0);
    this.#places[block] = place;
    this.#own(sequence, block);
  }

  /** Adds a sequence to a block's owners. The caller copies the cells. */
  share(block: number, sequence: number): void {
    if (!this.#owners[block].includes(sequence)) this.#own(sequence, block);
  }

  /** Notes that a block's tokens will have cells up to `tokens`. */
  fill(block: number, tokens: number): void {
    if (tokens > this.#fills[block]) this.#setFill(block, tokens);
  }

  /** Notes that all cells of a block were loaded into a sequence that was given the block. */
  fillLoaded(block: number, sequence: number): void {
    if (this.#rows[sequence][this.#places[block]] === block) this.#setFill(block, this.#blockSize);
  }

  /** Removes all cells of a sequence from a position on. */
  truncate(sequence: number, length: number): void {
    this.#moves.remove(sequence, length, -1);
    const row = this.#rows[sequence];
    const first = Math.floor(length / this.#blockSize);
    for (let place = first; place < this.#maxBlocks; place++) {
      const block = row[place];
      if (block < 0) continue;
      const rest = Math.max(0, length - place * this.#blockSize);
      // Nobody writes into a shared block, so only blocks of this sequence alone are cut.
      if (rest > 0) this.#setFill(block, Math.min(rest, this.#fills[block]));
      else this.#disown(sequence, block);
    }
  }

  /**
   * Ends a sequence whose request has ended or released its blocks. Whole blocks without another
   * owner may stay in a holder.
   */
  retire(sequence: number): void {
    if (!this.#keepsPrefixes) {
      this.drop(sequence);
      return;
    }
    const row = this.#rows[sequence];
    for (let place = 0; place < this.#maxBlocks && this.#counts[sequence] > 0; place++) {
      const block = row[place];
      if (block < 0) continue;
      const isWhole = this.#fills[block] === this.#blockSize;
      if (isWhole && this.#owners[block].length === 1) continue;
      this.#let(sequence, block, true);
      this.#disown(sequence, block);
    }
    if (this.#counts[sequence] === 0) this.#close(sequence);
    else if (!this.#merge(sequence)) this.#holders.add(sequence);
  }

  /** Ends a sequence at once. Cells of no other sequence are lost. */
  drop(sequence: number): void {
    this.#holders.delete(sequence);
    this.#moves.remove(sequence, 0, -1);
    const row = this.#rows[sequence];
    for (let place = 0; place < this.#maxBlocks && this.#counts[sequence] > 0; place++)
      if (row[place] >= 0) this.#disown(sequence, row[place]);
    this.#close(sequence);
  }

  /** Marks a holder as recently used. */
  touch(sequence: number): void {
    if (this.#holders.delete(sequence)) this.#holders.add(sequence);
  }

  /**
   * @throws ERR_BLOCKSTEP_INVARIANT if the blocks have more tokens than the cache has cells, so
   * that llama.cpp would find no cell
   */
  check(most: number): void {
    if (this.#cells <= most) return;
    const message = `the blocks have ${this.#cells} tokens, and the KV cache has ${most} cells`;
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', message);
  }

  /**
   * Moves the blocks of a retired sequence into a holder with free places, which saves a sequence.
   */
  #merge(sequence: number): boolean {
    const row = this.#rows[sequence];
    const places: number[] = [];
    for (let place = 0; place < this.#maxBlocks; place++) if (row[place] >= 0) places.push(place);
    for (const holder of this.#holders) {
      const other = this.#rows[holder];
      if (!places.every((place) => other[place] < 0)) continue;
      for (const place of places) {
        const block = row[place];
        this.#moves.copy(sequence, holder, place * this.#blockSize, (place + 1) * this.#blockSize);
        this.#own(holder, block);
        this.#disown(sequence, block);
      }
      this.#moves.remove(sequence, 0, -1);
      this.#close(sequence);
      this.touch(holder);
      return true;
    }
    return false;
  }

  #close(sequence: number): void {
    this.#holders.delete(sequence);
    this.#free.push(sequence);
  }

  #own(sequence: number, block: number): void {
    const row = this.#rows[sequence];
    const place = this.#places[block];
    const before = row[place];
    if (before >= 0) {
      this.#let(sequence, before, true);
      this.#disown(sequence, before);
    }
    row[place] = block;
    this.#counts[sequence]++;
    this.#owners[block].push(sequence);
  }

  /** Takes a block's cells from a sequence. The caller updates the owners. */
  #let(sequence: number, block: number, removes: boolean): void {
    const place = this.#places[block];
    if (removes) this.#moves.remove(sequence, place * this.#blockSize, (place + 1) * this.#blockSize);
    this.#rows[sequence][place] = -1;
    this.#counts[sequence]--;
    if (this.#counts[sequence] === 0 && this.#holders.has(sequence)) this.#close(sequence);
  }

  /** Removes a sequence from the owners of a block. */
  #disown(sequence: number, block: number): void {
    const owners = this.#owners[block];
    const at = owners.indexOf(sequence);
    if (at < 0) return;
    owners.splice(at, 1);
    const place = this.#places[block];
    if (this.#rows[sequence][place] === block) this.#let(sequence, block, false);
    if (owners.length === 0) this.#setFill(block, 0);
  }

  #setFill(block: number, tokens: number): void {
    this.#cells += tokens - this.#fills[block];
    this.#fills[block] = tokens;
  }
}
