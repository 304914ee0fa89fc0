import type { Engine } from '../../engine/engine.js';

/** The map is made at most so often, however many watch. */
const REFRESH_MS = 900;
/** At most one part in so many of the time goes into maps: of a pool of millions there are fewer. */
const SHARE = 100;

/** Where the KV cache group stands in the byte of a block. */
const GROUP_SHIFT = 4;
const NO_GROUP = 255;

/** The states of all blocks at one moment. */
export interface BlockSnapshot {
  /** Changes when a state does, and only then. */
  readonly version: string;
  /** A byte for each block, by its id: its `BlockState`, and with several KV cache groups 16 times (its group + 1), 0 of a block of none. */
  readonly states: Uint8Array;
}

/** The states of the blocks of an engine: one snapshot for all who watch, made when somebody asks and the last one is old. */
export class BlockSnapshots {
  readonly #engine: Engine;
  /** Tells this server from the one that was here before. */
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
