import { randomBytes } from 'node:crypto';
import { checkBoolean } from '../base/checks.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { checkHostMemory } from '../base/host-memory.js';
import { bytes, INSPECT, showFacts } from '../base/inspect.js';
import { checkNames, knownNames } from '../base/known-names.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native/native.js';
import type { NativeArena, NativeArenaConfig, Place } from '../core/native/native-transfer.js';
import { type ArenaDescriptor, parseDescriptor } from './arena-descriptor.js';

/** Shape and place of a `BlockArena`. */
export interface ArenaConfig extends NativeArenaConfig {
  /**
   * True: other processes of this machine can map the memory, by its descriptor. Linux only, and
   * place `host` only. All memory is taken at once. Default false.
   */
  shared?: boolean;
}

const CONFIG = knownNames<ArenaConfig>('the config of a BlockArena', {
  numBlocks: true,
  bytesPerBlock: true,
  place: true,
  device: true,
  shared: true,
});

/**
 * Blocks of bytes in native memory: one tier of KV blocks, in the host's memory or on a GPU. The
 * bytes are 0 at first. A lane keeps the memory alive for as long as it uses it.
 *
 * `place` decides who can read and write the blocks. `host`: JavaScript and host lanes; a page of
 * memory is taken when it is first written. `pinned`: the same, and CUDA lanes and kernels; all
 * memory is taken at once. `device`: CUDA lanes and kernels only.
 */
export class BlockArena {
  /** The native memory, as lanes take it. */
  readonly native: NativeArena;
  /** Blocks of the arena; their ids are 0 to numBlocks - 1. */
  readonly numBlocks: number;
  /** Size of one block, in bytes. A lane needs the same size on both sides. */
  readonly bytesPerBlock: number;
  /** Where the memory lies, which decides who can use it. */
  readonly place: Place;
  /** Ordinal of the GPU, as CUDA counts them; without meaning for `host`. */
  readonly device: number;
  #buffer: ArrayBuffer | undefined;
  #id: string | undefined;
  #descriptor: ArenaDescriptor | undefined;

  /**
   * Wraps native memory of this shape and place that exists already; `allocate` makes new memory.
   */
  constructor(native: NativeArena, config: Readonly<NativeArenaConfig>, shareId?: string) {
    this.native = native;
    this.#id = shareId;
    this.numBlocks = config.numBlocks;
    this.bytesPerBlock = config.bytesPerBlock;
    this.place = config.place ?? 'host';
    this.device = config.device ?? 0;
  }

  /**
   * Allocates an arena.
   * @param config numBlocks 1 to 2^24, bytesPerBlock 1 to 2^31 - 1, place default 'host', device
   * default 0. Only a place other than 'host' creates a CUDA context. `shared`: default false
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE;
   * ERR_BLOCKSTEP_CUDA if a place other than 'host' is unavailable; ERR_BLOCKSTEP_LIMIT if this
   * system shares no memory
   */
  static allocate(config: Readonly<ArenaConfig>, addon: NativeAddon = loadAddon()): BlockArena {
    if (typeof config !== 'object' || config === null) throw badArgument('config', show(config), 'an object');
    checkNames(config, CONFIG);
    const { numBlocks, bytesPerBlock, place = 'host', device = 0, shared = false } = config;
    const taken = { numBlocks, bytesPerBlock, place, device };
    if (!checkBoolean('shared', shared)) return new BlockArena(addon.createArena(taken), taken);
    if (place !== 'host') throw badArgument('place', show(place), `'host' for an arena that is shared`);
    checkHostMemory('numBlocks', numBlocks, numBlocks * bytesPerBlock);
    const shareId = newArenaId();
    return new BlockArena(addon.createArena({ ...taken, shareId }), taken, shareId);
  }

  /**
   * Attaches an arena that was made elsewhere. That is another thread of this process, at any
   * place. If the arena is `shared`, it may be another process of this machine and user. The memory
   * is the same, and nothing is copied. It stays for as long as anybody has it, even after the end
   * of the process that made it. Every holder may write it, but not while others use it. The
   * arena's own thread must keep the arena until it is attached.
   * @param descriptor the arena's `descriptor`, perhaps sent as JSON
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_LIMIT if the arena is gone, is not shared, or may
   * not be mapped by this process; ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE
   */
  static attach(descriptor: ArenaDescriptor, addon: NativeAddon = loadAddon()): BlockArena {
    const { id, pid, file, ...config } = parseDescriptor(descriptor);
    const { numBlocks, bytesPerBlock } = config;
    // Without a file only this process can attach the arena. No process has a file of this number.
    const native = addon.attachArena({ id, pid, file: file ?? 2 ** 31 - 1, numBlocks, bytesPerBlock });
    return new BlockArena(native, config, id);
  }

  /** Size of all blocks together, in bytes. */
  get numBytes(): number {
    return this.numBlocks * this.bytesPerBlock;
  }

  /**
   * All blocks, one after the other: the memory itself and not a copy. Bytes that a lane writes
   * show here at once, piece by piece.
   * @throws ERR_BLOCKSTEP_LIMIT for 4 GiB or more, for memory of a GPU, and if the runtime allows
   * no ArrayBuffer over native memory; ERR_BLOCKSTEP_DISPOSED
   */
  get buffer(): ArrayBuffer {
    this.#buffer ??= this.native.buffer();
    return this.#buffer;
  }

  /**
   * The bytes of one block: a view of `buffer`.
   * @throws ERR_BLOCKSTEP_BAD_ARG, and as `buffer`
   */
  block(id: number): Uint8Array {
    checkInteger('block', id, 0, this.numBlocks - 1);
    return new Uint8Array(this.buffer, id * this.bytesPerBlock, this.bytesPerBlock);
  }

  /**
   * Address of the first block, for other addons; the other blocks follow without a gap. For
   * `device` it is a GPU address, for `pinned` an address valid on both sides. It is valid until
   * the arena is disposed.
   * @throws ERR_BLOCKSTEP_DISPOSED
   */
  get pointer(): bigint {
    return this.native.pointer();
  }

  /**
   * Where the arena is, for `attach` in another thread or process.
   * @throws ERR_BLOCKSTEP_DISPOSED
   */
  get descriptor(): ArenaDescriptor {
    if (this.#descriptor !== undefined) return this.#descriptor;
    this.#id ??= newArenaId();
    const file = this.native.share(this.#id);
    const { numBlocks, bytesPerBlock, place, device } = this;
    this.#descriptor = { id: this.#id, pid: process.pid, file, numBlocks, bytesPerBlock, place, device };
    return this.#descriptor;
  }

  /**
   * A copy of one block's bytes, wherever the block is. The GPU copies a block of `device`, and the
   * thread waits for it: meant for tests and debugging.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED
   */
  readBlock(id: number): Uint8Array {
    const bytes = new Uint8Array(this.bytesPerBlock);
    this.native.readBlock(id, bytes);
    return bytes;
  }

  /**
   * Overwrites one block; for a block of `device` the thread waits for the GPU, as in `readBlock`.
   * @param bytes as many as a block has
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED,
   * ERR_BLOCKSTEP_DETACHED
   */
  writeBlock(id: number, bytes: Uint8Array): void {
    this.native.writeBlock(id, bytes);
  }

  /**
   * How often lanes have filled the block, modulo 2^32.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED
   */
  arrivals(block: number): number {
    return this.native.arrivals(block);
  }

  /**
   * Frees the memory as soon as no lane and no ArrayBuffer uses it. The call waits for nothing.
   * Pinned memory and memory of a GPU is reused at once, so end the work of your own streams on it
   * first. Idempotent.
   */
  dispose(): void {
    this.#buffer = undefined;
    this.native.dispose();
  }

  /** For `util.inspect` and `console.log`: number and size of the blocks, and where they lie. */
  [INSPECT](depth: number, options: object): string {
    const { numBlocks, bytesPerBlock, place, device, numBytes } = this;
    const where = place === 'host' ? { place } : { place, device };
    const fixed = { numBlocks, bytesPerBlock, size: bytes(numBytes), ...where };
    return showFacts('BlockArena', depth, options, fixed, () => {
      this.native.arrivals(0); // throws if the arena was disposed, so that `showFacts` shows that
      return {};
    });
  }

  /** As `dispose`, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A unique id for an arena. */
export function newArenaId(): string {
  return randomBytes(16).toString('hex');
}
