import type { CoreConfig } from '../../core/core.js';
import { type Placement, resolvePlacement } from '../../core/placement.js';
import { numLookaheadTokens, type SchedulerConfig } from './options.js';

/** Pending operations that the update of one entry can cause besides its tokens: publish, evict, release, close. */
const OPS_PER_ENTRY = 4;

/**
 * The part of a configuration that decides something. The placement decides nothing, so a recorded log does not name
 * one.
 */
type DecidingConfig = Omit<
  SchedulerConfig,
  'now' | 'log' | 'placement' | 'connector' | 'borrower' | 'kvEvents'
> & {
  placement?: Placement;
  kvEvents?: SchedulerConfig['kvEvents'];
};

/** The configuration of the native core for a scheduler of this configuration. */
export function coreConfig(config: DecidingConfig): Required<CoreConfig> {
  const { numBlocks, blockSize, maxNumSeqs, maxModelLen, numSpeculativeTokens } = config;
  return {
    numBlocks,
    blockSize,
    numRows: config.numRows,
    maxBlocksPerRow: Math.ceil(maxModelLen / blockSize),
    maxEntries: maxNumSeqs,
    // One frame more than steps in flight: the plan updated last stays readable while the next one is made.
    numFrames: config.pipelineDepth + 1,
    pendingCapacity: maxNumSeqs * (1 + numSpeculativeTokens + OPS_PER_ENTRY) + 64,
    lookahead: numLookaheadTokens(config),
    maxTokens: Math.min(config.maxNumBatchedTokens, maxNumSeqs * maxModelLen),
    maxModelLen,
    enablePrefixCaching: config.enablePrefixCaching,
    hashSeed: config.hashSeed,
    kvEvents: config.kvEvents?.report ?? 'off',
    ...(config.placement ?? resolvePlacement({})),
  };
}
