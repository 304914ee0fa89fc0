import type { CoreConfig } from '../../core/core.js';
import type { NativeConfig } from '../../core/native/native.js';
import type { NativeGroup } from '../../core/native/native-groups.js';
import { type Placement, resolvePlacement } from '../../core/placement.js';
import { admissionCap, groupsOf, isFull, type KvGroup, type KvGroups, statesOfStep } from './kv-groups.js';
import { numLookaheadTokens, numSinkBlocks, numUnsettledTokens, type RuledConfig } from './options.js';

type GroupConfig = 'groups' | 'keptBlocks' | 'groupFixes' | 'retention';

/** Pending operations that the update of one entry can cause besides its tokens: publish, evict, release, close. */
const OPS_PER_ENTRY = 4;

/**
 * The part of a configuration that affects decisions. The placement does not, so a recorded log has
 * none.
 */
type DecidingConfig = Omit<
  RuledConfig,
  'now' | 'log' | 'placement' | 'connector' | 'borrower' | 'kvEvents'
> & {
  placement?: Placement;
  kvEvents?: RuledConfig['kvEvents'];
};

/** The configuration of the native core for a scheduler of this configuration. */
export function coreConfig(
  config: DecidingConfig,
): Required<Omit<CoreConfig, GroupConfig>> & Pick<CoreConfig, GroupConfig> {
  const { numBlocks, maxNumSeqs, maxModelLen, numSpeculativeTokens, kvGroups } = config;
  const { list, hashBlockSize } = groupsOf(config);
  return {
    numBlocks,
    blockSize: hashBlockSize,
    numRows: config.numRows,
    maxBlocksPerRow: Math.max(
      ...list.map((group) => Math.ceil(maxModelLen / group.blockSize) + group.numSpeculativeBlocks),
    ),
    ...(kvGroups !== null && groupsForCore(kvGroups, config)),
    maxEntries: maxNumSeqs,
    // There is one frame more than steps in flight, so that the plan updated last stays readable
    // while the next one is made.
    numFrames: config.pipelineDepth + 1,
    pendingCapacity: maxNumSeqs * (1 + numSpeculativeTokens + OPS_PER_ENTRY) + 64,
    lookahead: numLookaheadTokens(config),
    maxTokens: Math.min(config.maxNumBatchedTokens, maxNumSeqs * maxModelLen),
    maxModelLen,
    enablePrefixCaching: config.enablePrefixCaching,
    hashSeed: config.hashSeed,
    freeOrder: config.freeOrder,
    kvEvents: config.kvEvents?.report ?? 'off',
    kvEventsByBlock: !config.deviations.eventsByHash,
    ...(config.placement ?? resolvePlacement({})),
  };
}

/** Bits of `NativeConfig.groupFixes`. */
const CUT_ALL_FULL = 1;
const SHIFT_MASKS = 2;
const CHUNK_HITS = 4;
const DROP_STATES = 8;
const LOAD_NEEDED = 16;
const PROMPT_TAILS = 32;
const HOLD_ALL_HITS = 64;

function groupsForCore(groups: KvGroups, config: DecidingConfig): Required<Pick<NativeConfig, GroupConfig>> {
  const { cutAllHits, publishMatchable, chunkHits, dropStates, loadNeeded, holdAllHits } = config.deviations;
  const { zeroAttention, capDrafts, capStates } = config.deviations;
  const context = { ...config, hasConnector: false };
  const unsettled = numUnsettledTokens(config);
  const scheduled = config.windowBasis === 'scheduled';
  const drafts = (capDrafts ? numLookaheadTokens(config) : 0) + unsettled;
  return {
    groups: groups.list.map((group) => ({
      type: nativeType(group),
      blockSize: group.blockSize,
      window: group.window,
      chunk: group.chunk,
      spareBlocks: group.numSpeculativeBlocks,
      unsettled: group.type === 'mamba' && scheduled ? group.numSpeculativeBlocks : unsettled,
      mostBlocks:
        capStates && group.mode !== null && group.mode !== 'align'
          ? statesOfStep(group, config, drafts) + group.numSpeculativeBlocks
          : admissionCap(group, context, drafts),
      spec: group.spec,
      eagle: group.eagle,
      zeroed: groups.hasStates && (zeroAttention ? group.type !== 'mamba' : group.type === 'full'),
    })),
    keptBlocks: numSinkBlocks(groups),
    retention: config.retention,
    groupFixes:
      (cutAllHits ? CUT_ALL_FULL : 0) |
      (publishMatchable ? SHIFT_MASKS : 0) |
      (chunkHits ? CHUNK_HITS : 0) |
      (dropStates && !scheduled ? DROP_STATES : 0) |
      (loadNeeded ? LOAD_NEEDED : 0) |
      (config.promptTails ? PROMPT_TAILS : 0) |
      (holdAllHits ? HOLD_ALL_HITS : 0),
  };
}

function nativeType(group: KvGroup): NativeGroup['type'] {
  if (group.type === 'sliding' || group.type === 'chunked') return group.type;
  return isFull(group) ? 'full' : `mamba-${group.mode ?? 'none'}`;
}
