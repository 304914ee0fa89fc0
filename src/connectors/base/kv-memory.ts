import { badArg, isRecord } from '../../base/checks.js';
import { BlockArena } from '../../transfer/block-arena.js';
import type { CompletionQueue } from '../../transfer/completion-queue.js';
import type { Lane } from '../../transfer/lane.js';

/** The KV memory of one rank, for its worker. A `ReferenceExecutor` is one. */
export interface KvMemory {
  /**
   * The KV blocks, indexed by the block ids of the scheduler. The arena is on the host, in pinned
   * memory or on a GPU.
   */
  readonly kv: BlockArena;
  /**
   * Called with the blocks that a load has filled, before the load is reported. It is optional:
   * some executors need to know.
   * @param handle the request's handle
   * @param blocks ids of the loaded blocks
   */
  adopt?(handle: number, blocks: Int32Array): void;
}

/** KV blocks that lie in no arena, and make the lanes that copy them. A `LlamaKv` is one. */
export interface LanedBlocks {
  readonly numBlocks: number;
  /** Size of a copied block. */
  readonly bytesPerBlock: number;
  /** Makes a lane from these blocks to an arena on the host, with blocks of the same size. */
  laneTo(queue: CompletionQueue, target: BlockArena): Lane;
  /** Makes a lane from such an arena to these blocks. */
  laneFrom(queue: CompletionQueue, source: BlockArena): Lane;
}

/** The KV memory of one rank that is no arena. A `LlamaExecutor` with `kvTransfer` is one. */
export interface LanedMemory {
  readonly kv: LanedBlocks;
  /** See `KvMemory`. */
  adopt?(handle: number, blocks: Int32Array): void;
}

/**
 * Checks the KV memory that a caller gave, which may make its own lanes.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkAnyMemory(memory: unknown): KvMemory | LanedMemory {
  const kv = isRecord(memory) ? memory['kv'] : undefined;
  if (kv instanceof BlockArena || !isRecord(kv) || typeof kv['laneTo'] !== 'function')
    return checkMemory(memory);
  const adopt = (memory as Record<string, unknown>)['adopt'];
  const isMemory = typeof kv['laneFrom'] === 'function' && typeof kv['bytesPerBlock'] === 'number';
  if (isMemory && (adopt === undefined || typeof adopt === 'function'))
    return memory as unknown as LanedMemory;
  throw badArg(
    'memory',
    memory,
    'an object with kv, such as an executor that has a BlockArena or makes lanes',
  );
}

/**
 * Checks the KV memory that a caller gave.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkMemory(memory: unknown): KvMemory {
  const isMemory = isRecord(memory) && memory['kv'] instanceof BlockArena;
  const adopt = isMemory ? memory['adopt'] : undefined;
  if (isMemory && (adopt === undefined || typeof adopt === 'function')) return memory as unknown as KvMemory;
  throw badArg('memory', memory, 'an object with kv, a BlockArena, such as a ReferenceExecutor');
}

/**
 * Allocates a host arena for copies to and from a KV memory. The arena is pinned unless the KV
 * memory is ordinary host memory, because a GPU copies only to and from pinned memory.
 * @returns an arena whose blocks have the size of the KV memory's blocks
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA
 */
export function hostArenaFor(kv: BlockArena | LanedBlocks, numBlocks: number): BlockArena {
  const { bytesPerBlock } = kv;
  if (!(kv instanceof BlockArena)) return BlockArena.allocate({ numBlocks, bytesPerBlock });
  const { place, device } = kv;
  const where = place === 'host' ? 'host' : 'pinned';
  return BlockArena.allocate({ numBlocks, bytesPerBlock, place: where, device });
}
