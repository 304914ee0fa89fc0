import { badArg, isRecord } from '../../base/checks.js';
import { BlockArena } from '../../transfer/block-arena.js';

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
export function hostArenaFor({ bytesPerBlock, place, device }: BlockArena, numBlocks: number): BlockArena {
  const where = place === 'host' ? 'host' : 'pinned';
  return BlockArena.allocate({ numBlocks, bytesPerBlock, place: where, device });
}
