import { type GroupRule, keepsTokens } from '../../audit/group-rules.js';

/** A value that no text leaves anywhere. */
export const GARBAGE = -1;

/**
 * The place of the KV of a position in a plane of the simulated KV memory. A group of states keeps
 * one state in a block.
 */
export class KvPlaces {
  readonly groups: readonly GroupRule[];
  /** Values of a block, in the group with the most. */
  readonly span: number;

  constructor(groups: readonly GroupRule[]) {
    this.groups = groups;
    this.span = Math.max(...groups.map((group) => (keepsTokens(group) ? group.size : 1)));
  }

  /** Of a group of states: where the state behind the position stands, if it is the last one in its block. */
  within(g: number, block: number, position: number): number {
    return block * this.span + (keepsTokens(this.groups[g]) ? position % this.groups[g].size : 0);
  }

  /** Fills whole blocks of a plane. */
  fill(plane: Int32Array, block: number, value: number): void {
    plane.fill(value, block * this.span, (block + 1) * this.span);
  }
}
