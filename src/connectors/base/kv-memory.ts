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
