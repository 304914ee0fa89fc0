// The KV memory of a peer, mapped into this process.
import { BlockArena } from '../../../transfer/block-arena.js';
import { type JobEnd, KvLanes, type LaneFactory } from '../../base/kv-lanes.js';
import type { KvMemory } from '../../base/kv-memory.js';

/** The KV memory of a peer, mapped into this process, and the lane that reads it. */
export interface Source {
  load(handle: number, sources: Int32Array, blocks: Int32Array, notBefore: number, end: JobEnd): number;
  readonly numBlocks: number;
  cancel(job: number): void;
  settle(step: number): void;
  drain(): void;
  /** Ends every copy and calls its callback. */
  fence(): void;
  /** Ends every copy, calls its callback, and then unmaps the memory. */
  dispose(): void;
}

class MappedSource implements Source {
  readonly #arena: BlockArena;
  readonly #lanes: KvLanes;

  constructor(arena: BlockArena, memory: KvMemory, makeLane?: LaneFactory) {
    this.#arena = arena;
    // A load counts only when the peer has confirmed it, so the reader calls `adopt`.
    this.#lanes = new KvLanes({ kv: memory.kv }, arena, makeLane);
  }

  get numBlocks(): number {
    return this.#arena.numBlocks;
  }

  load(handle: number, sources: Int32Array, blocks: Int32Array, notBefore: number, end: JobEnd): number {
    return this.#lanes.load(handle, sources, blocks, notBefore, end);
  }

  cancel(job: number): void {
    this.#lanes.cancel(job);
  }

  settle(step: number): void {
    this.#lanes.settle(step);
  }

  drain(): void {
    if (this.#lanes.numPending > 0) this.#lanes.drain();
  }

  fence(): void {
    this.#lanes.fence();
  }

  dispose(): void {
    this.#lanes.fence();
    this.#lanes.dispose();
    this.#arena.dispose();
  }
}

/**
 * Maps the KV memory of a peer.
 * @param descriptor from the peer's welcome
 * @returns null if the memory cannot be mapped here: it is in another machine, on a GPU of another
 * process, or not shared
 */
export function mapSource(descriptor: unknown, memory: KvMemory, makeLane?: LaneFactory): Source | null {
  if (descriptor === null) return null;
  let arena: BlockArena;
  try {
    arena = BlockArena.attach(descriptor as Parameters<typeof BlockArena.attach>[0]);
  } catch {
    return null;
  }
  try {
    if (arena.bytesPerBlock !== memory.kv.bytesPerBlock) throw new Error('blocks of another size');
    return new MappedSource(arena, memory, makeLane);
  } catch {
    arena.dispose();
    return null;
  }
}
