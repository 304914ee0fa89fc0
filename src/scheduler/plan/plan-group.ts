import type { Frame } from '../../core/core.js';

/** The places of one KV cache group's rows in a plan. Entry i of every array belongs to entry i of the plan. */
export interface PlanGroup {
  /**
   * Places of each entry's row, those of this step included. A place may be empty: its block id is
   * 0.
   */
  readonly numBlocks: Int32Array;
  /**
   * How many of them are new in this step: the last ones. For an admitted entry, all are. In a
   * group of states (Mamba `align`) a new place may be empty. It may also have a block that the row
   * held before at an earlier place.
   */
  readonly numNewBlocks: Int32Array;
  /** For an admitted entry: its leading places that were not taken from the pool in this step. */
  readonly numHitBlocks: Int32Array;
  /** Leading blocks that all requests with blocks share; 0 for groups that do not need all tokens. */
  numCommonPrefixBlocks: number;
}

/** The groups of a plan whose shared arrays lie in a frame. */
export function planGroups({ groups, slots }: Frame): PlanGroup[] {
  return groups.map(({ numBlocks, numNewBlocks }) => ({
    numBlocks,
    numNewBlocks,
    numHitBlocks: new Int32Array(slots.length),
    numCommonPrefixBlocks: 0,
  }));
}

/** Removes entry `at` of `end`; later entries move up. */
export function removeGroupEntry(
  { numBlocks, numNewBlocks, numHitBlocks }: PlanGroup,
  at: number,
  end: number,
): void {
  for (const column of [numBlocks, numNewBlocks, numHitBlocks]) column.copyWithin(at, at + 1, end);
}
