import type { BlockArena } from '../../../transfer/block-arena.js';
import { type JobEnd, KvLanes, type LaneFactory } from '../../base/kv-lanes.js';
import { hostArenaFor, type KvMemory } from '../../base/kv-memory.js';

/** Consecutive blocks of the staging arena that belong to one piece. */
export interface Slot {
  readonly index: number;
  /** Ids of the slot's blocks. */
  readonly places: Int32Array;
}

/**
 * Host memory of fixed size between KV memory and messages, in slots of one piece each. The memory
 * is allocated when the first piece arrives. The number of slots limits the bytes under way.
 */
export class Staging {
  /** Maximum number of blocks of one piece. */
  readonly pieceBlocks: number;
  readonly numSlots: number;
  readonly #memory: KvMemory;
  readonly #makeLane: LaneFactory | undefined;
  #arena: BlockArena | null = null;
  #lanes: KvLanes | null = null;
  #free: Slot[] = [];
  #settled = -1;

  /**
   * @param numBytes size of the staging arena, at least two pieces
   * @param pieceBytes size of a piece, at least one block
   */
  constructor(memory: KvMemory, numBytes: number, pieceBytes: number, makeLane?: LaneFactory) {
    // A load counts only when the peer has confirmed it, so the reader calls `adopt`.
    this.#memory = { kv: memory.kv };
    this.#makeLane = makeLane;
    const { bytesPerBlock } = memory.kv;
    this.pieceBlocks = Math.max(1, Math.min(Math.floor(pieceBytes / bytesPerBlock), 65_536));
    this.numSlots = Math.max(2, Math.floor(numBytes / (this.pieceBlocks * bytesPerBlock)));
  }

  /** Number of slots in use. */
  get numUsed(): number {
    return this.#arena === null ? 0 : this.numSlots - this.#free.length;
  }

  /** Takes a slot; null if all are in use. @throws ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA */
  take(): Slot | null {
    if (this.#arena === null) this.#allocate();
    return this.#free.pop() ?? null;
  }

  give(slot: Slot): void {
    this.#free.push(slot);
  }

  /** Copies blocks of the KV memory to the first places of a slot. */
  store(blocks: Int32Array, slot: Slot, end: JobEnd): number {
    return (this.#lanes as KvLanes).store(blocks, slot.places.subarray(0, blocks.length), end);
  }

  /**
   * Copies the first places of a slot to blocks of the KV memory, after step `notBefore` was
   * settled.
   */
  load(handle: number, slot: Slot, blocks: Int32Array, notBefore: number, end: JobEnd): number {
    const places = slot.places.subarray(0, blocks.length);
    return (this.#lanes as KvLanes).load(handle, places, blocks, notBefore, end);
  }

  cancel(job: number): void {
    this.#lanes?.cancel(job);
  }

  /** Returns the bytes of the first `count` places of a slot: a view, not a copy. */
  bytes(slot: Slot, count: number): Uint8Array {
    const { buffer, bytesPerBlock } = this.#arena as BlockArena;
    return new Uint8Array(buffer, slot.places[0] * bytesPerBlock, count * bytesPerBlock);
  }

  settle(step: number): void {
    this.#settled = step;
    this.#lanes?.settle(step);
  }

  drain(): void {
    this.#lanes?.drain();
  }

  /** Ends every copy and calls its callback. */
  fence(): void {
    this.#lanes?.fence();
  }

  dispose(): void {
    this.#lanes?.dispose();
    this.#arena?.dispose();
    this.#lanes = null;
    this.#arena = null;
    this.#free = [];
  }

  #allocate(): void {
    const { pieceBlocks, numSlots } = this;
    const arena = hostArenaFor(this.#memory.kv, pieceBlocks * numSlots);
    try {
      this.#lanes = new KvLanes(this.#memory, arena, this.#makeLane);
    } catch (error) {
      arena.dispose();
      throw error;
    }
    this.#arena = arena;
    if (this.#settled >= 0) this.#lanes.settle(this.#settled);
    this.#free = Array.from({ length: numSlots }, (_, index) => ({
      index,
      places: Int32Array.from({ length: pieceBlocks }, (_, i) => index * pieceBlocks + i),
    }));
  }
}
