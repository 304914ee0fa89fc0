/** A KV cache group, as native code knows it. */
export interface NativeGroup {
  type: 'full' | 'sliding' | 'chunked' | 'mamba-none' | 'mamba-all' | 'mamba-align';
  blockSize: number;
  window: number;
  chunk: number;
  spareBlocks: number;
  mostBlocks: number;
  spec: number;
  eagle: boolean;
  /** What no token needs is let go as many tokens later: drafts may take a request back to them. Default 0. */
  unsettled?: number;
  zeroed: boolean;
}

/** The part of `NativeConfig` for KV cache groups. */
export interface NativeGroupConfig {
  /** KV cache groups. Then `blockSize` is the tokens of a block hash. Absent: one group of full attention. */
  groups?: readonly NativeGroup[];
  /** Which places of windows and states are published; see the option `retention` of the scheduler. Default `all`. */
  retention?: 'all' | 'reachable' | number;
  /** Blocks that are taken out of the pool for good, from id 1 on. Default 0. */
  keptBlocks?: number;
  /** Bits: 1 = all groups of full attention are cut to the hit, 2 = with drafters the matchable places are published, 4 = hits have the chunk that they end in, 8 = all states in front of the needed one are let go, 16 = no block is loaded into that no token needs, 32 = the block in which a prompt's last hash ends is published. Default 0. */
  groupFixes?: number;
}

/** What an admission asks for, in tokens. */
export type AskedOfGroups = [
  slot: number,
  hitTokens: number,
  externalTokens: number,
  computedTokens: number,
  scheduledTokens: number,
  lookahead: number,
  reserveTokens: number,
];

/** The part of `NativeCore` for KV cache groups. Only a core with `groups` has it, but for `publishedGroup`. */
export interface NativeGroupCalls {
  /** Begins a step. States that were published before it exist from now on. */
  beginStep(): void;
  /** In place of `match`. @returns tokens that every group has cached, at most maxTokens */
  matchGroups(slot: number, maxTokens: number): number;
  /**
   * In place of `admit`: gives the slot its rows, or more places in them. The counts of each group stand in the control words
   * then. The free blocks must leave `spareBlocks`, and `reservedBlocks` beside what is taken. `inFlightTokens`: see `Frame.numInFlightTokens`. `promptTokens`: of the
   * request; at their end windows and states are kept. What the request needs no more is let go also if the answer is -1.
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
  /** Blocks that must be free for such an admission, by group; null = it hits a state that the present step makes, and waits. */
  neededGroups(...asked: AskedOfGroups): Float64Array | null;
  /** Writes `Control.groupCommonPrefix` for the slot in `Control.headSlot`. */
  commonPrefixGroups(): void;
  /** Lets go what the slot needs no more behind so many tokens. */
  dropGroups(slot: number, computedTokens: number): void;
  /** Tokens behind which the slot's text parts from a text before it, as its last lookup found; 0 = nowhere behind the hit. */
  junction(slot: number): number;
  /** Blocks of full attention that were taken since the last call, if there is a group of states. */
  takeZeroed(): Int32Array;
  /**
   * What `run` and `admitGroups` let go since `beginStep`, because no later token reads it: slot, block, group, place in that group's row and
   * generation of the block in turn; null = nothing. A block may stand there twice.
   */
  takeDropped(): Int32Array | null;
  /** The group for which a block is published; 0 if it is not. */
  publishedGroup(id: number): number;
  /** Of every block, by its id: the group whose row holds it, or for which it is published; 255 = none. */
  groupsOfBlocks(): Uint8Array;
  /**
   * Four numbers for each group: blocks in use, published blocks, places of rows that hold nothing, and how often a row let a block
   * go since the core was made.
   */
  countGroups(): Float64Array;
}
