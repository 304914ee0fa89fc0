import type { CoreConfig } from '../../core/core.js';
import { type Placement, resolvePlacement } from '../../core/placement.js';
import { numLookaheadTokens, type SchedulerConfig } from './options.js';

/** Pending operations that one entry's update can cause beside its tokens: publish, evict, release, close. */
const OPS_PER_ENTRY = 4;

/** What decides something; the placement does not, so a recorded log does not name one. */
type DecidingConfig = Omit<SchedulerConfig, 'now' | 'log' | 'placement' | 'connector'> & {
  placement?: Placement;
};

/** The native core that a scheduler of this configuration stands on. */
export function coreConfig(config: DecidingConfig): Required<CoreConfig> {
  const { numBlocks, blockSize, maxNumSeqs, maxModelLen, numSpeculativeTokens } = config;
  return {
    numBlocks,
    blockSize,
    numRows: config.numRows,
    maxBlocksPerRow: Math.ceil(maxModelLen / blockSize),
    maxEntries: maxNumSeqs,
    // One frame more than can be in flight, so that the plan updated last stays readable while the next is made.
    numFrames: config.pipelineDepth + 1,
    pendingCapacity: maxNumSeqs * (1 + numSpeculativeTokens + OPS_PER_ENTRY) + 64,
    lookahead: numLookaheadTokens(config),
    maxTokens: Math.min(config.maxNumBatchedTokens, maxNumSeqs * maxModelLen),
    maxModelLen,
    enablePrefixCaching: config.enablePrefixCaching,
    hashSeed: config.hashSeed,
    ...(config.placement ?? resolvePlacement({})),
  };
}
