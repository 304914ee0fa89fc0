import { checkBoolean, checkNumber } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkHostMemory } from '../../base/host-memory.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { KV_ENTRY_BYTES, type NativeReferenceConfig } from '../../core/native/native-reference.js';
import { gpuOf, resolvePlacement } from '../../core/placement.js';
import type { ExecutorLimits } from '../../engine/executor/executor-limits.js';
import { ENGINE_OPTION_NAMES, type EngineOptions } from '../../engine/state/options.js';
import { coreConfig } from '../../scheduler/options/core-config.js';
import { groupOptions, type KvGroupOptions, type KvGroups } from '../../scheduler/options/kv-groups.js';
import { OPTION_WORDS } from '../../scheduler/options/option-names.js';
import type { SchedulerConfig, SchedulerOptions } from '../../scheduler/options/options.js';
import { resolveOptions } from '../../scheduler/options/resolve-options.js';
import { SINGLE_RULES } from '../../scheduler/options/rules.js';
import { newArenaId } from '../../transfer/block-arena.js';
import { asGroupOptions, nativeGroups } from './groups.js';
import type { Defer } from './host-runner.js';

/** The reaction to a fault; see `ReferenceExecutorOptions.onMismatch`. */
export type MismatchPolicy = 'fail-step' | 'fail-row' | 'report';
const POLICIES: readonly MismatchPolicy[] = ['fail-step', 'fail-row', 'report'];

/** No token: the largest token id is 2^31 - 2. */
const NO_TOKEN = 2 ** 31 - 1;
const MAX_LATENCY_MS = 2 ** 31 - 1;

/**
 * Sizes, under the scheduler's names and with its defaults. The options of an engine or the
 * `config` of a scheduler can be passed. Their other options are ignored.
 */
type Sizes = Pick<
  SchedulerOptions,
  | 'numBlocks'
  | 'blockSize'
  | 'maxNumSeqs'
  | 'maxNumBatchedTokens'
  | 'maxModelLen'
  | 'numSpeculativeTokens'
  | 'pipelineDepth'
>;

/**
 * The options that the checks and defaults of `kvGroups` depend on, as in the scheduler's options.
 */
type GroupContext = Pick<
  SchedulerOptions,
  'hashBlockSize' | 'enablePrefixCaching' | 'enableChunkedPrefill' | 'longPrefillTokenThreshold'
>;

/** Options of a `ReferenceExecutor`: the sizes of its engine, and its own. */
export interface ReferenceExecutorOptions<Device = string>
  extends Omit<Sizes, 'pipelineDepth'>,
    GroupContext,
    Partial<Record<'pipelineDepth', number>> {
  /**
   * KV cache groups: the option of a scheduler, or the field of its `config`. Pass the scheduler's
   * `enablePrefixCaching` too, because the groups' defaults depend on it.
   */
  kvGroups?: readonly KvGroupOptions[] | KvGroups | null;
  /** Equal seeds give equal texts for equal prompts: 0 to 2^32 - 1. Default 0. */
  seed?: number;
  /**
   * The token that ends a text before it would repeat itself. Default: none, so that texts go on.
   */
  eosTokenId?: number;
  /** Share of the drafts that are wrong, 0 to 1. Default 0.25. */
  draftErrorRate?: number;
  /**
   * The reaction to a fault. `fail-step` (default): the step fails with ERR_BLOCKSTEP_KV_MISMATCH.
   * `fail-row`: the entries concerned fail. In both cases later steps in flight fail the rows of
   * such a request, until the request is admitted again. `report`: nothing fails, and wrong reads
   * give wrong texts; `faults` lists the faults.
   */
  onMismatch?: MismatchPolicy;
  /**
   * The place of the KV memory and of the computation: `cpu` (default), `cuda` (the GPU 0) or
   * `cuda:N`. On a GPU, kernels write and read the entries through the tables on the GPU.
   */
  device?: Device;
  /**
   * True: other processes of this machine can map the KV memory, by `kv.descriptor`; all of it is
   * taken at once. On `cpu` and Linux only. Default false.
   */
  shareKv?: boolean;
  /**
   * Milliseconds from a step's submission to its computation. Default: at once, inside `execute`.
   * Refused on a GPU.
   */
  latencyMs?: number;
  /**
   * Called once for each step, in place of `latencyMs`, with a function that computes the oldest
   * step not computed yet. Call that function at any later time. Refused on a GPU.
   */
  defer?: Defer;
}

const { placement: _, ...WORDS } = OPTION_WORDS;

/**
 * The executor's own options, and all options of an engine and of a scheduler's `config`, so that
 * one object serves both.
 */
const OPTIONS = knownNames<ReferenceExecutorOptions & EngineOptions & Pick<SchedulerConfig, 'placement'>>(
  'the options of a ReferenceExecutor',
  {
    ...ENGINE_OPTION_NAMES,
    ...Object.fromEntries(SINGLE_RULES.map((name) => [name, true])),
    placement: true,
    seed: true,
    eosTokenId: true,
    draftErrorRate: true,
    shareKv: true,
    onMismatch: true,
    latencyMs: true,
    defer: true,
  },
  WORDS,
);

/** The options, checked. */
export interface ReferenceSetup {
  native: NativeReferenceConfig;
  policy: MismatchPolicy;
  /** The GPU; null for the host. */
  gpu: number | null;
  limits: ExecutorLimits;
  defer: Defer | null;
}

/**
 * Checks the options and fills in the defaults; each is read once.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and the expected value
 */
export function resolveReferenceOptions(options: ReferenceExecutorOptions): ReferenceSetup {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, OPTIONS);
  const { numBlocks, blockSize, maxNumSeqs, maxNumBatchedTokens, maxModelLen } = options;
  const { numSpeculativeTokens, pipelineDepth, seed = 0, eosTokenId, draftErrorRate = 0.25 } = options;
  const { onMismatch = 'fail-step', device = 'cpu', shareKv = false, latencyMs, defer } = options;
  const sizes = {
    blockSize,
    maxNumSeqs,
    maxNumBatchedTokens,
    maxModelLen,
    numSpeculativeTokens,
    pipelineDepth,
  };
  const config = resolveOptions({ ...(sizes as Sizes), numBlocks, ...parseGroupOptions(options) });
  const { maxEntries, maxTokens } = coreConfig(config);
  if (!POLICIES.includes(onMismatch)) {
    throw badArgument('onMismatch', show(onMismatch), `one of ${POLICIES.join(', ')}`);
  }
  if (latencyMs !== undefined && defer !== undefined) {
    throw badArgument('defer', show(defer), 'absent where latencyMs is given');
  }
  resolvePlacement({ device });
  const gpu = device === 'cpu' ? null : gpuOf({ device });
  const isShared = checkBoolean('shareKv', shareKv) || undefined;
  for (const [name, value] of Object.entries({ latencyMs, defer, shareKv: isShared })) {
    if (gpu !== null && value !== undefined) throw badArgument(name, show(value), `absent on ${device}`);
  }
  const layout = nativeGroups(config);
  const kvBytes = config.numBlocks * layout.blockSize * KV_ENTRY_BYTES;
  if (isShared) checkHostMemory('numBlocks', numBlocks, kvBytes);
  return {
    native: {
      numBlocks: config.numBlocks,
      ...layout,
      maxTokens,
      maxEntries,
      maxDrafts: config.numSpeculativeTokens,
      pipelineDepth: config.pipelineDepth,
      seed: checkInteger('seed', seed, 0, 2 ** 32 - 1),
      eosToken: eosTokenId === undefined ? NO_TOKEN : checkInteger('eosTokenId', eosTokenId, 0, NO_TOKEN - 1),
      wrongDrafts: Math.min(
        Math.floor(checkNumber('draftErrorRate', draftErrorRate, 0, 1) * 2 ** 32),
        2 ** 32 - 1,
      ),
      reportOnly: onMismatch === 'report',
      ...(isShared ? { shareId: newArenaId() } : {}),
    },
    policy: onMismatch,
    gpu,
    limits: Object.freeze({
      numBlocks: config.numBlocks,
      blockSize: config.blockSize,
      kvGroups: groupOptions(config.kvGroups).kvGroups ?? null,
      maxNumSeqs: config.maxNumSeqs,
      maxNumBatchedTokens: config.maxNumBatchedTokens,
      maxModelLen: config.maxModelLen,
      fixedShape: true,
      pipelineDepth: config.pipelineDepth,
      numSpeculativeTokens: config.numSpeculativeTokens,
    }),
    defer: parseDefer(latencyMs, defer),
  };
}

/**
 * The groups with the options that they depend on. Without groups no other option is read, because
 * it only concerns the scheduler.
 */
function parseGroupOptions(
  options: ReferenceExecutorOptions,
): GroupContext & Pick<SchedulerOptions, 'kvGroups'> {
  const { kvGroups, hashBlockSize, enablePrefixCaching, enableChunkedPrefill, longPrefillTokenThreshold } =
    options;
  if (kvGroups === undefined || kvGroups === null) return {};
  const context = { hashBlockSize, enablePrefixCaching, enableChunkedPrefill, longPrefillTokenThreshold };
  return { ...(context as GroupContext), ...asGroupOptions(kvGroups) };
}

function parseDefer(latencyMs: unknown, defer: unknown): Defer | null {
  if (latencyMs !== undefined) {
    const delay = checkNumber('latencyMs', latencyMs as number, 0, MAX_LATENCY_MS);
    return (computeOldest) => void setTimeout(computeOldest, delay);
  }
  if (defer === undefined) return null;
  if (typeof defer !== 'function') throw badArgument('defer', show(defer), 'a function');
  return defer as Defer;
}
