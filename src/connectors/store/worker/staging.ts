import { badArg } from '../../../base/checks.js';
import { checkHostMemory } from '../../../base/host-memory.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import { hostArenaFor } from '../../base/kv-memory.js';

/** What a place of the staging arena is used for. */
export type StagingUse = 'load' | 'store';

/**
 * The arena between the KV memory of a rank and its store, and which places of it are free. Its size bounds what is on
 * the way between both. Stores use at most half of it, so that loads, which requests wait for, find room.
 */
export class Staging {
  readonly arena: BlockArena;
  readonly #free: number[];
  readonly #used: Record<StagingUse, number> = { load: 0, store: 0 };

  /**
   * @param kv the KV memory
   * @param numBytes bound of the arena
   * @throws ERR_BLOCKSTEP_BAD_ARG if it has not two blocks; ERR_BLOCKSTEP_NO_MEMORY if the machine has not so much
   */
  constructor(kv: BlockArena, numBytes: number) {
    const { bytesPerBlock } = kv;
    const numBlocks = Math.floor(numBytes / bytesPerBlock);
    if (numBlocks < 2)
      throw badArg('stagingBytes', numBytes, `at least two blocks of ${bytesPerBlock} bytes`);
    checkHostMemory('stagingBytes', numBlocks * bytesPerBlock, numBlocks * bytesPerBlock);
    this.arena = hostArenaFor(kv, numBlocks);
    this.#free = Array.from({ length: numBlocks }, (_, i) => numBlocks - 1 - i);
  }

  /** Places in use. */
  get numUsed(): number {
    return this.#used.load + this.#used.store;
  }

  /** How many places `take` would give. */
  room(use: StagingUse): number {
    const half = this.arena.numBlocks >> 1;
    return use === 'load' ? this.#free.length : Math.min(this.#free.length, half - this.#used.store);
  }

  /** Takes places, of which there is room for at least as many. */
  take(use: StagingUse, count: number): Int32Array {
    this.#used[use] += count;
    return Int32Array.from(this.#free.splice(this.#free.length - count, count));
  }

  /** Gives places back that nothing uses any more. */
  give(use: StagingUse, places: Int32Array): void {
    this.#used[use] -= places.length;
    for (const place of places) this.#free.push(place);
  }
}
