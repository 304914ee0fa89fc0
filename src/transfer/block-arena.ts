import { badArgument, checkInteger, show } from '../base/errors.js';
import { bytes, INSPECT, showFacts } from '../base/inspect.js';
import { checkNames, knownNames } from '../base/known-names.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native.js';
import type { NativeArena, NativeArenaConfig, Place } from '../core/native-transfer.js';

const CONFIG = knownNames<NativeArenaConfig>('the config of a BlockArena', {
  numBlocks: true,
  bytesPerBlock: true,
  place: true,
  device: true,
});

/**
 * Blocks of bytes in native memory: a tier of KV blocks in the host's memory, or on a GPU. Zeroed at first. Lanes keep an arena alive
 * as long as they use it.
 *
 * Its `place` decides who can touch it. `host`: JavaScript and host lanes; the system gives memory only where it is written.
 * `pinned`: the same, and CUDA lanes and kernels; all memory is taken at once. `device`: CUDA lanes and kernels only.
 */
export class BlockArena {
  readonly native: NativeArena;
  readonly numBlocks: number;
  readonly bytesPerBlock: number;
  readonly place: Place;
  /** Which GPU, as CUDA counts them; without meaning for `host`. */
  readonly device: number;
  #buffer: ArrayBuffer | undefined;

  /** An arena over native memory that exists, of this shape and place; `allocate` makes memory. */
  constructor(native: NativeArena, config: Readonly<NativeArenaConfig>) {
    this.native = native;
    this.numBlocks = config.numBlocks;
    this.bytesPerBlock = config.bytesPerBlock;
    this.place = config.place ?? 'host';
    this.device = config.device ?? 0;
  }

  /**
   * @param config numBlocks 1 to 2^24, bytesPerBlock 1 to 2^31 - 1, place default 'host', device default 0. Only a place
   * other than 'host' makes a CUDA context.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE; ERR_BLOCKSTEP_CUDA where a place other
   * than 'host' cannot be had
   */
  static allocate(config: Readonly<NativeArenaConfig>, addon: NativeAddon = loadAddon()): BlockArena {
    if (typeof config !== 'object' || config === null) throw badArgument('config', show(config), 'an object');
    checkNames(config, CONFIG);
    const { numBlocks, bytesPerBlock, place = 'host', device = 0 } = config;
    const taken = { numBlocks, bytesPerBlock, place, device };
    return new BlockArena(addon.createArena(taken), taken);
  }

  /** Bytes of all blocks. */
  get numBytes(): number {
    return this.numBlocks * this.bytesPerBlock;
  }

  /**
   * All blocks, one after the other: the memory itself, not a copy. Pieces that a lane writes show here at once.
   * @throws ERR_BLOCKSTEP_LIMIT for 4 GiB or more, for memory of a GPU, and where the runtime allows no ArrayBuffer over
   * native memory; ERR_BLOCKSTEP_DISPOSED
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

  /**
   * Address of the first block, for other addons; the other blocks follow without a gap. For `device` it is an address on the GPU, for
   * `pinned` one that host and GPU can use. It is good until the arena is disposed.
   * @throws ERR_BLOCKSTEP_DISPOSED
   */
  get pointer(): bigint {
    return this.native.pointer();
  }

  /**
   * A copy of one block's bytes, wherever they are. For `device` the GPU copies them and the thread waits: for tests and for debugging.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED
   */
  readBlock(id: number): Uint8Array {
    const bytes = new Uint8Array(this.bytesPerBlock);
    this.native.readBlock(id, bytes);
    return bytes;
  }

  /**
   * Overwrites one block, as `readBlock` reads it: waiting for a GPU.
   * @param bytes as many as a block has
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_DETACHED
   */
  writeBlock(id: number, bytes: Uint8Array): void {
    this.native.writeBlock(id, bytes);
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

  [INSPECT](depth: number, options: object): string {
    const { numBlocks, bytesPerBlock, place, device, numBytes } = this;
    const where = place === 'host' ? { place } : { place, device };
    const fixed = { numBlocks, bytesPerBlock, size: bytes(numBytes), ...where };
    return showFacts('BlockArena', depth, options, fixed, () => {
      this.native.arrivals(0); // that it was disposed shows where it is read
      return {};
    });
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
