// KV blocks beyond the cache of a served model: in host memory, and on disk over a restart.
import { badArgument } from '../../../base/errors.js';
import { checkHostMemory } from '../../../base/host-memory.js';
import { offload } from '../../../connectors/offload/index.js';
import { inWords } from '../../../executors/llama-cpp/gguf/memory-needs.js';
import { isEmbeddingModel, type ModelCard } from '../../../executors/llama-cpp/gguf/model-card.js';
import type { LlamaExecutor } from '../../../executors/llama-cpp/index.js';
import type { SchedulerOptions } from '../../../scheduler/options/options.js';
import type { ModelFlags } from './model-flags.js';
import type { ServedExecutor } from './served-executor.js';

const GIB = 2 ** 30;
/** Host memory in front of a disk, which reads and writes through it. */
const DEFAULT_GIB = 1;

/** The tiers that the flags ask for. */
export interface Offload {
  readonly hostBytes: number;
  /** The folder on disk. */
  readonly path: string | undefined;
}

/**
 * Reads the flags, and checks them with the model. @returns null without these flags
 * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_MEMORY if the machine does not have the memory
 */
export function parseOffload(
  { kvOffloadingSize, kvOffloadingPath: path }: ModelFlags,
  card: ModelCard,
  { enablePrefixCaching }: Partial<SchedulerOptions>,
): Offload | null {
  if (kvOffloadingSize === undefined && path === undefined) return null;
  const reasons = [
    [card.window > 0, 'with a sliding window'],
    [card.stateNumbers > 0, 'with states'],
    [isEmbeddingModel(card), 'that generates no text'],
  ] as const;
  for (const [applies, why] of reasons)
    if (applies)
      throw badArgument(
        '--kv-offloading-size',
        'set',
        `absent with a model ${why}, like --kv-offloading-path`,
      );
  if (enablePrefixCaching === false)
    throw badArgument(
      '--no-enable-prefix-caching',
      'set',
      'absent with KV offloading, which finds blocks by their hashes',
    );
  const gib = kvOffloadingSize ?? DEFAULT_GIB;
  const hostBytes = Math.floor(gib * GIB);
  checkHostMemory('--kv-offloading-size', gib, hostBytes);
  return { hostBytes, path };
}

/** The tiers of an engine. */
interface Tiers {
  readonly sides: Pick<ServedExecutor, 'connector' | 'workers'>;
  /** Resolves when the files were closed, behind the shutdown of the engine. */
  closed(): Promise<void>;
}

/** Makes the connector and its worker. */
export function makeTiers(executor: LlamaExecutor, { hostBytes, path }: Offload): Tiers {
  const sides = offload({
    memory: executor,
    hostBytes: Math.max(hostBytes, executor.kv.bytesPerBlock),
    ...(path !== undefined && { disk: { path, model: executor.kv.origin } }),
  });
  return { sides, closed: () => sides.workers[0].closed };
}

/** The places of KV blocks outside of the executor, for the user. */
export function describeOffload({ hostBytes, path }: Offload): string {
  const disk = path === undefined ? '' : `, and prefixes that come again on disk in ${path}`;
  return `KV beyond the cache: ${inWords(hostBytes)} of host memory${disk}.`;
}
