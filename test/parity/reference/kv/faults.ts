/**
 * Faults of vLLM that a correct scheduler must not have, by their names in the list of vLLM's
 * faults. True: the reference has the fault too, so that vLLM's decisions there can be replayed.
 */
export interface Faults {
  /**
   * The lookup of a Mamba group is widened for a drafter as if the last block were dropped again.
   * The hit is one block too long.
   */
  readonly G1: boolean;
  /** Of several specs of full attention only the first one's rows are cut to the hit. */
  readonly G2: boolean;
  /** Of a sliding group with a drafter just those blocks are not published that its lookup needs. */
  readonly G3: boolean;
  /** A load that fails is computed again from its first failed block, even where the window in front of it was never loaded. */
  readonly G9: boolean;
  /**
   * A hit of chunks may end before the block in which the last chunk begins. Such a hit has no
   * block of the chunk in which it ends.
   */
  readonly G17: boolean;
  /**
   * August, mode align, blocks larger than hashes (#45702): hits end inside blocks, and a block of
   * which only a part is a hit is copied. The copies of a step are made at once, before it
   * computes. But the same step may fill the block to copy, by a copy or by computing.
   */
  readonly partialHits: boolean;
}

/** The correct behaviour: no faults. */
export const NO_FAULTS: Faults = {
  G1: false,
  G2: false,
  G3: false,
  G9: false,
  G17: false,
  partialHits: false,
};
