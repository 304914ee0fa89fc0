import type { GroupRule } from '../audit/group-rules.js';
import { GARBAGE, KvPlaces } from '../shared/kv/kv-places.js';

/** Block ids of a request, by group; a place that holds nothing is 0. */
export type Rows = readonly (readonly number[])[];

/** The simulated KV memory, one plane a rank. */
export class Kv extends KvPlaces {
  readonly planes: Int32Array[];

  constructor(numBlocks: number, groups: readonly GroupRule[], numRanks: number) {
    super(groups);
    const size = numBlocks * this.span;
    this.planes = Array.from({ length: numRanks }, () => new Int32Array(size).fill(GARBAGE));
  }

  /** The block of a position; 0 = none. */
  block(g: number, rows: Rows, position: number): number {
    return rows[g][Math.floor(position / this.groups[g].size)] ?? 0;
  }

  /**
   * Where the KV of a position is in a plane. In a group of states, it is the state behind it, if
   * it is the last one in its block.
   */
  at(g: number, rows: Rows, position: number): number {
    return this.within(g, this.block(g, rows, position), position);
  }

  /** A copy of the first values of a block on one rank. */
  read(rank: number, block: number, count: number): Int32Array {
    const from = block * this.span;
    return this.planes[rank].slice(from, from + count);
  }

  write(rank: number, block: number, contents: Int32Array): void {
    this.planes[rank].set(contents, block * this.span);
  }

  /** Zeroes blocks, as a plan asks for it: whatever stands there is gone. */
  zero(blocks: Iterable<number>): void {
    for (const block of blocks) for (const plane of this.planes) this.fill(plane, block, GARBAGE);
  }

  forget(): void {
    for (const plane of this.planes) plane.fill(GARBAGE);
  }
}
