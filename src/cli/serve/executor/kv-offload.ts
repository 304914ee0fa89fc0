// KV blocks beyond the cache of a served model: in host memory, and on disk over a restart.
import { checkHostMemory } from '../../../base/host-memory.js';
import { offload } from '../../../connectors/offload/index.js';
import { inWords } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import type { LlamaExecutor } from '../../../executors/llama-cpp/index.js';
import type { ModelFlags } from './model-flags.js';
import type { ServedExecutor } from './served-executor.js';

const GIB = 2 ** 30;
/** Host memory in front of a disk, which reads and writes through it. */
const DEFAULT_GIB = 1;

type OffloadFlags = Pick<ModelFlags, 'kvOffloadingSize' | 'kvOffloadingPath'>;

/** Whether blocks are kept beyond the cache. */
export function hasOffload({ kvOffloadingSize, kvOffloadingPath }: OffloadFlags): boolean {
  return kvOffloadingSize !== undefined || kvOffloadingPath !== undefined;
}

/**
 * Bytes of host memory for these blocks.
 * @throws ERR_BLOCKSTEP_NO_MEMORY if the machine does not have them
 */
export function offloadBytes(flags: OffloadFlags): number {
  if (!hasOffload(flags)) return 0;
  const bytes = Math.floor((flags.kvOffloadingSize ?? DEFAULT_GIB) * GIB);
  checkHostMemory('--kv-offloading-size', flags.kvOffloadingSize ?? DEFAULT_GIB, bytes);
  return bytes;
}

/** The tiers of an engine. */
interface Tiers {
  readonly sides: Pick<ServedExecutor, 'connector' | 'workers'>;
  /** Resolves when the files were closed, behind the shutdown of the engine. */
  closed(): Promise<void>;
}

/** The connector and its worker; null without these flags. */
export function makeOffload(executor: LlamaExecutor, flags: OffloadFlags): Tiers | null {
  if (!hasOffload(flags)) return null;
  const { kvOffloadingPath: path } = flags;
  const sides = offload({
    memory: executor,
    hostBytes: Math.max(offloadBytes(flags), executor.kv.bytesPerBlock),
    ...(path !== undefined && { disk: { path, model: executor.kv.origin } }),
  });
  return { sides, closed: () => sides.workers[0].closed };
}

/** What is kept where, for the user. */
export function describeOffload(flags: OffloadFlags): string {
  const { kvOffloadingPath: path } = flags;
  const disk = path === undefined ? '' : `, and prefixes that come again on disk in ${path}`;
  return `KV beyond the cache: ${inWords(offloadBytes(flags))} of host memory${disk}.`;
}
