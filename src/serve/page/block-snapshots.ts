import type { Engine } from '../../engine/engine.js';

/** The minimum time between two maps in milliseconds, however many clients watch. */
const REFRESH_MS = 900;
/**
 * The reciprocal of the time share that maps may take at most. For a pool of millions of blocks,
 * maps are made less often.
 */
const SHARE = 100;

/** The position of the KV cache group in the byte of a block. */
const GROUP_SHIFT = 4;
const NO_GROUP = 255;

/** The states of all blocks at one moment. */
export interface BlockSnapshot {
  /** Changes exactly when a state changes. */
  readonly version: string;
  /**
   * A byte for each block, by its id: its `BlockState`. With several KV cache groups, 16 times (its
   * group + 1) is added, unless the block belongs to no group.
   */
  readonly states: Uint8Array;
}

/**
 * The states of the blocks of an engine. All clients share one snapshot, which is renewed on
 * request when it is old.
 */
export class BlockSnapshots {
  readonly #engine: Engine;
  /** Distinguishes this server from an earlier one at the same address. */
  readonly #name = Date.now().toString(36);
  #number = 0;
  #states: Uint8Array | null = null;
  #staleAt = Number.NEGATIVE_INFINITY;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT */
  read(): BlockSnapshot {
    const start = performance.now();
    if (this.#states === null || start >= this.#staleAt) {
      const seen = this.#engine.scheduler.inspect();
      const states = seen.blockStates();
      const groups = seen.blockGroups();
      if (groups !== null) addGroups(states, groups);
      if (this.#states === null || Buffer.compare(states, this.#states) !== 0) this.#number++;
      this.#states = states;
      const end = performance.now();
      this.#staleAt = end + Math.max(REFRESH_MS, SHARE * (end - start));
    }
    return { version: `"${this.#name}-${this.#number}"`, states: this.#states };
  }
}

function addGroups(states: Uint8Array, groups: Uint8Array): void {
  for (let block = 0; block < states.length; block++)
    if (groups[block] !== NO_GROUP) states[block] |= (groups[block] + 1) << GROUP_SHIFT;
}
