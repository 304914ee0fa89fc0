import { badArg } from '../../../base/checks.js';
import { INSPECT, showFacts } from '../../../base/inspect.js';
import { BlockArena } from '../../../transfer/block-arena.js';
import { type CompletionQueue, checkQueue } from '../../../transfer/completion-queue.js';
import type { Lane } from '../../../transfer/lane.js';
import type { NativeContext } from '../native/binding.js';
import type { CellCopies } from './cell-copies.js';
import { CellLane } from './cell-lane.js';
import type { RefusedCopies } from './copy-ends.js';

/** Counts of a `LlamaKv` since its executor was made, in blocks. */
export interface LlamaKvStats {
  /** Blocks that were saved, and blocks that were loaded. */
  readonly saved: number;
  readonly loaded: number;
  /** Copies that were not made, by reason. A refused load costs a cache hit, and nothing else. */
  readonly refused: RefusedCopies;
}

/**
 * The KV blocks of a `LlamaExecutor`, for connectors that copy blocks: `offload` and `StoreWorker`.
 * The blocks lie in llama.cpp's cache, and in no arena. Saved blocks have a header. A block is
 * loaded only if its header names the same model file, adapters, llama.cpp, cache and block size,
 * and its checksum is right.
 */
export class LlamaKv {
  readonly numBlocks: number;
  /** Size of a saved block, with its header. */
  readonly bytesPerBlock: number;
  /**
   * Names everything that the KV of equal tokens depends on. These are the contents of the model's
   * file and adapters, the version of llama.cpp, the cache's type, and the block size.
   */
  readonly origin: string;
  readonly #context: NativeContext;
  readonly #copies: CellCopies;

  /** Executors make it. @internal */
  constructor(context: NativeContext, copies: CellCopies, numBlocks: number, origin: string) {
    this.#context = context;
    this.#copies = copies;
    this.numBlocks = numBlocks;
    this.bytesPerBlock = context.blockBytes();
    this.origin = origin;
  }

  /**
   * Makes a lane that saves blocks in an arena.
   * @param target has blocks of `bytesPerBlock`, and is not on a GPU
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  laneTo(queue: CompletionQueue, target: BlockArena): Lane {
    return this.#lane(queue, 'target', target, true);
  }

  /**
   * Makes a lane that loads blocks from an arena.
   * @param source has blocks of `bytesPerBlock`, and is not on a GPU
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  laneFrom(queue: CompletionQueue, source: BlockArena): Lane {
    return this.#lane(queue, 'source', source, false);
  }

  /** The counts so far. */
  stats(): LlamaKvStats {
    const { saved, loaded, refused } = this.#copies.counts;
    return { saved, loaded, refused: { ...refused } };
  }

  /** For `util.inspect` and `console.log`. */
  [INSPECT](depth: number, options: object): string {
    const { numBlocks, bytesPerBlock } = this;
    const { saved, loaded } = this.stats();
    return showFacts('LlamaKv', depth, options, { numBlocks, bytesPerBlock, saved, loaded });
  }

  #lane(queue: CompletionQueue, name: string, arena: BlockArena, isSave: boolean): Lane {
    checkQueue(queue);
    if (!(arena instanceof BlockArena)) throw badArg(name, arena, 'a BlockArena');
    if (arena.place === 'device') throw badArg(name, arena, 'an arena in memory of the host');
    if (arena.bytesPerBlock !== this.bytesPerBlock)
      throw badArg(name, arena, `an arena with blocks of ${this.bytesPerBlock} bytes`);
    const sides = { context: this.#context, copies: this.#copies, numBlocks: this.numBlocks, arena, isSave };
    return new CellLane(queue, sides);
  }
}
