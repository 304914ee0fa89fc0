import { badArg } from '../../../base/checks.js';
import { checkHostMemory } from '../../../base/host-memory.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import { hostArenaFor, type LanedBlocks } from '../../base/kv-memory.js';

/** The use of a place of the staging arena. */
export type StagingUse = 'load' | 'store';

/**
 * The arena between the KV memory of a rank and its store, with its free places. Its size limits
 * the blocks under way. Stores use at most half of it, so that loads, for which requests wait, find
 * room.
 */
export class Staging {
  readonly arena: BlockArena;
  readonly #free: number[];
  readonly #used: Record<StagingUse, number> = { load: 0, store: 0 };

  /**
   * @param kv the KV memory
   * @param numBytes maximum size of the arena
   * @throws ERR_BLOCKSTEP_BAD_ARG if two blocks do not fit; ERR_BLOCKSTEP_NO_MEMORY if the machine
   * has too little memory
   */
  constructor(kv: BlockArena | LanedBlocks, numBytes: number) {
    const { bytesPerBlock } = kv;
    const numBlocks = Math.floor(numBytes / bytesPerBlock);
    if (numBlocks < 2)
      throw badArg('stagingBytes', numBytes, `at least two blocks of ${bytesPerBlock} bytes`);
    checkHostMemory('stagingBytes', numBlocks * bytesPerBlock, numBlocks * bytesPerBlock);
    this.arena = hostArenaFor(kv, numBlocks);
    this.#free = Array.from({ length: numBlocks }, (_, i) => numBlocks - 1 - i);
  }

  /** Number of places in use. */
  get numUsed(): number {
    return this.#used.load + this.#used.store;
  }

  /** Returns how many places `take` can give. */
  room(use: StagingUse): number {
    const half = this.arena.numBlocks >> 1;
    return use === 'load' ? this.#free.length : Math.min(this.#free.length, half - this.#used.store);
  }

  /** Takes places. The caller has checked that there is room. */
  take(use: StagingUse, count: number): Int32Array {
    this.#used[use] += count;
    return Int32Array.from(this.#free.splice(this.#free.length - count, count));
  }

  /** Gives back places that are no longer used. */
  give(use: StagingUse, places: Int32Array): void {
    this.#used[use] -= places.length;
    for (const place of places) this.#free.push(place);
  }
}
