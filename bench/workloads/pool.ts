import { Core, PendingOp, slotOf } from '../../src/core/core.js';
import { BLOCK_SIZE, Prompts } from './workloads.js';

/** Tokens of the request whose operations are measured, and its blocks. */
export const TOKENS = 2048;
export const BLOCKS = TOKENS / BLOCK_SIZE;

/** Key of the block hash, the same in every run. */
const SEED = Uint8Array.from({ length: 16 }, (_, i) => i);

/**
 * The blocks of the free queue: `empty` blocks, or `cached` blocks of the prefix cache, which are
 * evicted when they are taken.
 */
type FreeQueue = 'empty' | 'cached';

/** A native core whose free queue stays as it was made: all empty, or all cached. */
export class Pool {
  readonly core: Core;
  readonly queue: FreeQueue;
  readonly #prompts = new Prompts(TOKENS);
  #count = 0;

  constructor(numBlocks: number, queue: FreeQueue, enablePrefixCaching: boolean) {
    this.queue = queue;
    this.core = new Core({
      numBlocks,
      blockSize: BLOCK_SIZE,
      numRows: 16,
      maxBlocksPerRow: 2 * BLOCKS,
      maxEntries: 16,
      maxModelLen: 2 * TOKENS,
      enablePrefixCaching,
      hashSeed: SEED,
    });
    // Every block is used once, so that its memory has been touched.
    for (let used = 0; used < numBlocks; used += BLOCKS) this.#use(this.addNew());
    if (queue === 'empty' && !this.core.native.reset()) throw new Error('the pool is in use');
  }

  /** The slot of a prompt that was never seen. */
  addNew(): number {
    return this.add(this.#count++);
  }

  /** The slot of prompt number `index`. */
  add(index: number): number {
    return slotOf(this.core.native.add(this.#prompts.at(index, TOKENS), '', ''));
  }

  /** Ends a slot. Its blocks go back, as empty or as cached blocks, whichever the pool has. */
  end(slot: number): void {
    if (this.queue === 'empty') this.core.push(PendingOp.evict, slot, 0);
    this.close(slot);
  }

  /** Ends a slot. The contents of its blocks stay in the prefix cache. */
  close(slot: number): void {
    this.core.push(PendingOp.close, slot, 0);
    this.core.flush();
  }

  /** Caches as many prompts as fit into the pool (at most 32 in a pool of empty blocks), and returns their numbers. */
  cachePrompts(): number[] {
    const fits = Math.floor((this.core.config.numBlocks - 1) / BLOCKS);
    const wanted = this.queue === 'cached' ? fits : Math.min(32, fits);
    const indexes = Array.from({ length: wanted }, () => this.#count++);
    for (const index of indexes) this.#use(this.add(index));
    return indexes;
  }

  /** Checks that all blocks came back and no invariant is broken, and disposes the pool. */
  check(): void {
    this.core.native.verify();
    if (this.core.freeBlocks !== this.core.config.numBlocks - 1) throw new Error('blocks were lost');
    this.core.dispose();
  }

  #use(slot: number): void {
    this.core.native.admit(slot, 0, TOKENS, TOKENS, TOKENS);
    this.close(slot);
  }
}
