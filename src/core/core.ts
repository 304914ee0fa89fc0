import { checkInteger } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import { type CoreConfig, nativeConfig } from './core-config.js';
import { DeviceGatherer, type DeviceTableSet, type DeviceTables } from './device-tables.js';
import { Control, type Frame, makeExchange } from './exchange.js';
import { loadAddon } from './loader.js';
import type { NativeAddon, NativeConfig, NativeCore } from './native/native.js';
import { type Backend, createNative, resolvePlacement } from './placement.js';
import { Gatherer, groupShapes, type StepTables } from './tables.js';
import { usableBlocks } from './usable-blocks.js';

export type { CoreConfig } from './core-config.js';
export { Control, type Frame, NO_TOKEN, PendingOp } from './exchange.js';

/**
 * Slots of the request table. A handle has 53 bits: 21 bits of slot, and above them 32 bits of
 * generation.
 */
export const SLOT_LIMIT = 2 ** 21;

/** The slot of a handle, an index into the request table. */
export function slotOf(handle: number): number {
  return handle % SLOT_LIMIT;
}

/** The generation of a handle: 1 for the first request in its slot. */
export function generationOf(handle: number): number {
  return Math.floor(handle / SLOT_LIMIT);
}

const INT32_MAX = 2 ** 31 - 1;

/**
 * The typed face of a native core: views of the exchange buffer, the queue of pending operations,
 * and the counts. It holds no policy. An operation that `push` queued takes effect at the next
 * native call; readers that must see it call `flush` first, as the counts below do. While a
 * decision of the GPU is under way, queued operations take effect behind that decision.
 */
export class Core {
  /**
   * The native core under this face, for features that the face lacks. Its changes bypass the
   * scheduler.
   */
  readonly native: NativeCore;
  /** The configuration of native code: checked, frozen, and with its defaults filled in. */
  readonly config: Readonly<NativeConfig>;
  /**
   * Control words of the exchange buffer, by `Control`. Counts are up to date only after `flush`.
   */
  readonly control: Int32Array;
  /**
   * Pending operations, two words each; the first `control[Control.numPending]` of them are valid.
   */
  readonly pending: Int32Array;
  /**
   * Frames of plan arrays in the exchange buffer: `numFrames` frames of `maxEntries` words per
   * array.
   */
  readonly frames: readonly Frame[];
  /** The sampled tokens of a steady decode; see `Control.numSampled`. */
  readonly sampled: Int32Array;
  /** The place of the state, and the reason for it. */
  readonly backend: Backend;
  /** KV cache groups. */
  readonly numGroups: number;
  readonly #mirrored: boolean;
  readonly #pendingCapacity: number;
  readonly #gatherer: Gatherer;
  readonly #deviceGatherer: DeviceGatherer;

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE,
   * ERR_BLOCKSTEP_CUDA
   */
  constructor(config: CoreConfig, addon: NativeAddon = loadAddon()) {
    this.config = Object.freeze(nativeConfig(config));
    const placement = resolvePlacement(config);
    const maxTokens = checkInteger('maxTokens', config.maxTokens ?? 8192, 1, INT32_MAX);
    const exchange = makeExchange(this.config);
    this.control = exchange.control;
    this.pending = exchange.pending;
    this.frames = exchange.frames;
    this.sampled = exchange.sampled;
    this.numGroups = this.config.groups?.length ?? 1;
    this.#pendingCapacity = this.config.pendingCapacity;
    this.control[Control.headSlot] = -1;
    const { native, backend } = createNative(addon, this.config, exchange.buffer, placement);
    this.native = native;
    this.backend = backend;
    this.#mirrored = backend.name !== 'host';
    const groups = groupShapes(this.config);
    const { maxEntries } = this.config;
    this.#gatherer = new Gatherer(this.native, this.frames, { maxTokens, maxEntries }, groups);
    this.#deviceGatherer = new DeviceGatherer(this.native, this.frames, { maxTokens, maxEntries }, groups);
  }

  /**
   * Fills the tables that a model runner reads of the plan in a frame, for the plan's first
   * `numEntries` entries. Call it after the `schedule()` that made the plan, and before anything
   * else changes the state. A gather is one native call. Its cost grows with the number of words
   * that this gather and the frame's last gather wrote. Only the padding of `queryStart` may reach
   * to the end of its array. The tables of a frame are allocated at its first gather: `tablesBytes`
   * bytes, 626 KB with 256 entries, 8,192 tokens and rows of 512 blocks. Memory of the block table
   * is touched only where it is written.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_BAD_SLOT, ERR_BLOCKSTEP_NO_ROW if an entry's
   * request ended or lost its blocks since, ERR_BLOCKSTEP_DETACHED, ERR_BLOCKSTEP_NO_MEMORY; the
   * tables then stay unchanged
   */
  gather(frame: number, numEntries: number): StepTables {
    return this.#gatherer.gather(frame, numEntries);
  }

  /**
   * The tables in the memory of the GPU: padding alone until the first `gatherOnDevice`. The first
   * call of either method allocates them. On the GPU they take as much memory as one set on the
   * host, and one message. On the host, one message per frame is pinned. A message has 12 bytes per
   * entry and 4 per token. `native.memory()` counts both.
   * @throws ERR_BLOCKSTEP_CUDA if the state is on the host alone, ERR_BLOCKSTEP_NO_MEMORY
   */
  deviceTables(): DeviceTableSet {
    return this.#deviceGatherer.set;
  }

  /**
   * Like `gather`, carried out by the GPU: it fills the GPU's one set of tables from the GPU's copy
   * of the rows. The host sends the row and two counts of each entry, and the tokens. The call also
   * sends the log of the step, if the GPU lacks it.
   *
   * The call returns when the gather is on its way. It waits only if more logs are on their way
   * than there are frames. This happens with plans that compute nothing (aborts, preemptions) while
   * a long step runs, or with logs of more than 65,536 words. Then it waits until the oldest step
   * on the GPU is done, for 60 seconds at most; `waits` of the tables counts these waits.
   * @param stream a cudaStream_t: the gather runs behind its present work, and before its later
   * work; null: the core's own
   * @throws the errors of `gather`, and then nothing was sent; ERR_BLOCKSTEP_CUDA,
   * ERR_BLOCKSTEP_MIRROR: the core then refuses everything
   */
  gatherOnDevice(frame: number, numEntries: number, stream: bigint | null = null): DeviceTables {
    return this.#deviceGatherer.gather(frame, numEntries, stream);
  }

  /**
   * Ends a step: sends the changes to a mirror on a GPU, without waiting. Without a mirror it costs
   * one comparison.
   * @param stream a cudaStream_t: the mirror changes in order with it, behind its present work;
   * null: the core's own
   * @throws ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR; the core then refuses everything
   */
  submit(stream: bigint | null = null): void {
    if (this.#mirrored) this.native.submit(stream);
  }

  /**
   * Queues a `PendingOp`; drains a full queue first.
   * @throws ERR_BLOCKSTEP_DECISION_PENDING if the GPU decides
   */
  push(op: number, slot: number, arg: number): void {
    let n = this.control[Control.numPending];
    if (n === this.#pendingCapacity) {
      this.native.flush();
      n = 0;
    }
    this.pending[2 * n] = (op << 24) | slot;
    this.pending[2 * n + 1] = arg;
    this.control[Control.numPending] = n + 1;
  }

  /**
   * Makes room for `count` <= `pendingCapacity` operations. The caller itself writes them behind
   * the pending operations.
   */
  reserve(count: number): void {
    if (this.control[Control.numPending] + count > this.#pendingCapacity) this.native.flush();
  }

  /**
   * Applies the queued operations now; while the GPU decides, they stay queued until its decision
   * has come.
   */
  flush(): void {
    const { control } = this;
    const waits = control[Control.numPending] | control[Control.numSampled];
    if (waits !== 0 && control[Control.deciding] === 0) this.native.flush();
  }

  /** Blocks in the free queue, cached ones included. */
  get freeBlocks(): number {
    return this.#count(Control.freeBlocks);
  }

  /** Blocks that carry a published hash, free ones included. */
  get publishedBlocks(): number {
    return this.#count(Control.publishedBlocks);
  }

  /**
   * Rows of the KV slot table that requests hold. Each row has a part for every group, and native
   * code counts the parts.
   */
  get rowsInUse(): number {
    return this.#count(Control.rowsInUse) / this.numGroups;
  }

  /** Published blocks that were reused for other content, since the core was made. */
  get evictions(): number {
    const low = this.#count(Control.evictionsLow) >>> 0;
    return (this.control[Control.evictionsHigh] >>> 0) * 2 ** 32 + low;
  }

  /** Fraction of the usable blocks that is in use, 0 to 1. */
  get usage(): number {
    const usable = usableBlocks(this.config);
    return usable === 0 ? 0 : 1 - this.freeBlocks / usable;
  }

  /** A copy of the known tokens of a slot. @throws ERR_BLOCKSTEP_BAD_SLOT */
  tokens(slot: number): Int32Array {
    this.flush();
    const out = new Int32Array(this.native.numTokens(slot));
    this.native.readTokens(slot, 0, out);
    return out;
  }

  /**
   * A copy of the block ids in a slot's row; empty without a row.
   * @throws ERR_BLOCKSTEP_BAD_SLOT
   */
  blocks(slot: number, group = 0): Int32Array {
    this.flush();
    const out = new Int32Array(this.config.maxBlocksPerRow);
    return out.slice(0, this.native.readBlocks(slot, 0, out, group));
  }

  /** A copy of the free queue: block ids, the next block first. */
  freeQueue(): Int32Array {
    const out = new Int32Array(this.freeBlocks);
    this.native.readFreeQueue(out);
    return out;
  }

  /** The ids of the blocks that carry a hash, ascending, in a new array. */
  published(): Int32Array {
    const out = new Int32Array(this.publishedBlocks);
    this.native.readPublished(out);
    return out;
  }

  /**
   * The KV cache group whose hash a block carries; 0 if it carries none.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  publishedGroup(id: number): number {
    return this.native.publishedGroup(id);
  }

  /** Frees the native memory now; every later call throws ERR_BLOCKSTEP_DISPOSED. Idempotent. */
  dispose(): void {
    this.native.dispose();
  }

  /** As `dispose`, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** For `util.inspect` and `console.log`: back end, number of blocks, and tokens per block. */
  [INSPECT](depth: number, options: object): string {
    const { numBlocks, blockSize } = this.config;
    return showFacts('Core', depth, options, { backend: this.backend.name, numBlocks, blockSize });
  }

  #count(word: number): number {
    this.flush();
    return this.control[word];
  }
}

/** Largest token id, and largest token count, that the core accepts. */
export const TOKEN_MAX = INT32_MAX - 1;
