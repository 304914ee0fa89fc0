// The native core with KV cache groups.

/** A KV cache group in native code. */
export interface NativeGroup {
  type: 'full' | 'sliding' | 'chunked' | 'mamba-none' | 'mamba-all' | 'mamba-align';
  blockSize: number;
  window: number;
  chunk: number;
  spareBlocks: number;
  mostBlocks: number;
  spec: number;
  eagle: boolean;
  /**
   * Blocks that no token needs are kept for this many tokens more, because rejected drafts may take
   * a request back to them. Default 0.
   */
  unsettled?: number;
  zeroed: boolean;
}

/** The part of `NativeConfig` for KV cache groups. */
export interface NativeGroupConfig {
  /**
   * KV cache groups. Then `blockSize` is the tokens of a block hash. Absent: one group of full
   * attention.
   */
  groups?: readonly NativeGroup[];
  /**
   * Which places of windows and states are published; see the option `retention` of the scheduler.
   * Default `all`.
   */
  retention?: 'all' | 'reachable' | number;
  /** Blocks that are removed from the pool for good, from id 1 on. Default 0. */
  keptBlocks?: number;
  /**
   * Bits, default 0.
   * - 1: all groups of full attention are cut to the hit.
   * - 2: with drafters, the matchable places are published.
   * - 4: hits include the chunk in which they end.
   * - 8: all states in front of the needed state are freed.
   * - 16: nothing is loaded into a block that no token needs.
   * - 32: the block in which a prompt's last hash ends is published.
   */
  groupFixes?: number;
}

/** The needs of an admission, in tokens. */
export type AskedOfGroups = [
  slot: number,
  hitTokens: number,
  externalTokens: number,
  computedTokens: number,
  scheduledTokens: number,
  lookahead: number,
  reserveTokens: number,
];

/**
 * The part of `NativeCore` for KV cache groups. Except for `publishedGroup`, only a core with
 * `groups` has it.
 */
export interface NativeGroupCalls {
  /** Begins a step. States that were published before this call exist from now on. */
  beginStep(): void;
  /** In place of `match`. @returns tokens that every group has cached, at most maxTokens */
  matchGroups(slot: number, maxTokens: number): number;
  /**
   * In place of `admit`: gives the slot its rows, or more places in them. The control words then
   * have the counts of each group. The free blocks must leave `spareBlocks`, and `reservedBlocks`
   * beside the taken blocks. `inFlightTokens`: see `Frame.numInFlightTokens`. `promptTokens`: of
   * the request; windows and states at their end are kept. Blocks that the request no longer needs
   * are freed even if the answer is -1.
   */
  admitGroups(
    ...asked: [
      ...asked: AskedOfGroups,
      publishes: boolean,
      spareBlocks?: number,
      reservedBlocks?: number,
      inFlightTokens?: number,
      promptTokens?: number,
    ]
  ): number;
  /**
   * Blocks that must be free for such an admission, by group. null: its hit is a state that the
   * present step makes, so it waits.
   */
  neededGroups(...asked: AskedOfGroups): Float64Array | null;
  /** Writes `Control.groupCommonPrefix` for the slot in `Control.headSlot`. */
  commonPrefixGroups(): void;
  /** Frees the places of the slot that are not needed behind so many tokens. */
  dropGroups(slot: number, computedTokens: number): void;
  /**
   * Token position at which the slot's text differs from an earlier text, as its last lookup found;
   * 0 = nowhere behind the hit.
   */
  junction(slot: number): number;
  /**
   * Blocks of full attention that were taken since the last call, if there is a group of states.
   */
  drainZeroed(): Int32Array;
  /**
   * Blocks that `run` and `admitGroups` freed since `beginStep`, because no later token reads them;
   * null = none. Each has five numbers: slot, block, group, place in that group's row, and
   * generation. A block may occur twice.
   */
  drainDropped(): Int32Array | null;
  /** The group of a block's published hash; 0 without a hash. */
  publishedGroup(id: number): number;
  /**
   * For every block, by its id: the group whose row holds it, or of its published hash; 255 = none.
   */
  groupsOfBlocks(): Uint8Array;
  /**
   * Four numbers for each group: blocks in use, published blocks, empty places of rows, and blocks
   * that rows have freed since the core was made.
   */
  countGroups(): Float64Array;
}
