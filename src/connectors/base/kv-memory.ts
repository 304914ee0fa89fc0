import { badArg, isRecord } from '../../base/checks.js';
import { BlockArena } from '../../transfer/block-arena.js';

/** The KV memory of one rank, as a worker is given it. A `ReferenceExecutor` is one. */
export interface KvMemory {
  /** The KV blocks, under the block ids of the scheduler. On the host, in pinned memory or on a GPU. */
  readonly kv: BlockArena;
  /**
   * Called with the blocks that a load has filled, before the load is reported; for executors that want to know.
   * @param handle the request's handle
   * @param blocks ids of the loaded blocks
   */
  adopt?(handle: number, blocks: Int32Array): void;
}

/**
 * Takes the KV memory from a caller.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkMemory(memory: unknown): KvMemory {
  const isMemory = isRecord(memory) && memory['kv'] instanceof BlockArena;
  const adopt = isMemory ? memory['adopt'] : undefined;
  if (isMemory && (adopt === undefined || typeof adopt === 'function')) return memory as unknown as KvMemory;
  throw badArg('memory', memory, 'an object with kv, a BlockArena, such as a ReferenceExecutor');
}

/**
 * Allocates an arena on the host that lanes can copy to and from a KV memory. It is pinned unless the KV memory itself is
 * ordinary host memory: a GPU copies from and to pinned memory alone.
 * @returns an arena whose blocks are as large as those of the KV memory
 * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_CUDA
 */
export function hostArenaFor({ bytesPerBlock, place, device }: BlockArena, numBlocks: number): BlockArena {
  const where = place === 'host' ? 'host' : 'pinned';
  return BlockArena.allocate({ numBlocks, bytesPerBlock, place: where, device });
}
