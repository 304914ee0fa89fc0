import { badArgument, checkInteger, show } from '../core/errors.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native.js';
import type { NativeArena, NativeArenaConfig } from '../core/native-transfer.js';

/**
 * Blocks of bytes in native memory: a tier of KV blocks (host memory), or what stands in for a device. Zeroed at first;
 * memory is taken where it is written. Lanes keep it for as long as they use it.
 */
export class BlockArena {
  readonly native: NativeArena;
  readonly numBlocks: number;
  readonly bytesPerBlock: number;
  #buffer: ArrayBuffer | undefined;

  /** Over native memory that somebody else has, of this shape; `allocate` makes some. */
  constructor(native: NativeArena, { numBlocks, bytesPerBlock }: Readonly<NativeArenaConfig>) {
    this.native = native;
    this.numBlocks = numBlocks;
    this.bytesPerBlock = bytesPerBlock;
  }

  /**
   * @param config numBlocks 1 to 2^24, bytesPerBlock 1 to 2^31 - 1
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE
   */
  static allocate(config: Readonly<NativeArenaConfig>, addon: NativeAddon = loadAddon()): BlockArena {
    if (typeof config !== 'object' || config === null) throw badArgument('config', show(config), 'an object');
    const { numBlocks, bytesPerBlock } = config;
    const shape = { numBlocks, bytesPerBlock };
    return new BlockArena(addon.createArena(shape), shape);
  }

  /** Bytes of all blocks. */
  get numBytes(): number {
    return this.numBlocks * this.bytesPerBlock;
  }

  /**
   * All blocks, one after the other: the memory itself, not a copy. What a lane writes shows here at once, in pieces.
   * @throws ERR_BLOCKSTEP_LIMIT for 4 GiB or more, and where the runtime allows no ArrayBuffer over native memory;
   * ERR_BLOCKSTEP_DISPOSED
   */
  get buffer(): ArrayBuffer {
    this.#buffer ??= this.native.buffer();
    return this.#buffer;
  }

  /** The bytes of one block, as `buffer` has them. @throws ERR_BLOCKSTEP_BAD_ARG and as `buffer` */
  block(id: number): Uint8Array {
    checkInteger('block', id, 0, this.numBlocks - 1);
    return new Uint8Array(this.buffer, id * this.bytesPerBlock, this.bytesPerBlock);
  }

  /** How often a lane has filled the block, modulo 2^32. @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED */
  arrivals(block: number): number {
    return this.native.arrivals(block);
  }

  /** Gives the memory back once no lane and no ArrayBuffer uses it. Idempotent. */
  dispose(): void {
    this.#buffer = undefined;
    this.native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
