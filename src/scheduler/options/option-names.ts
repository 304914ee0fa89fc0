import { knownNames, type NamesOf } from '../../base/known-names.js';
import type { SchedulerOptions } from './options.js';
import type { ResetOptions } from './reset.js';
import { SINGLE_RULES } from './rules.js';

/** Every option of a scheduler. */
export const SCHEDULER_OPTION_NAMES: NamesOf<SchedulerOptions> = {
  numBlocks: true,
  blockSize: true,
  kvGroups: true,
  hashBlockSize: true,
  maxNumSeqs: true,
  maxNumBatchedTokens: true,
  maxModelLen: true,
  enablePrefixCaching: true,
  policy: true,
  enableChunkedPrefill: true,
  longPrefillTokenThreshold: true,
  reserveFullIsl: true,
  pipelineDepth: true,
  numSpeculativeTokens: true,
  speculativeMethod: true,
  maxLoras: true,
  numRows: true,
  hashSeed: true,
  like: true,
  watermark: true,
  draftSlots: true,
  deviations: true,
  connector: true,
  borrower: true,
  numRanks: true,
  loadFailurePolicy: true,
  reclaim: true,
  deadlines: true,
  now: true,
  kvEvents: true,
  reportBlocks: true,
  steadyDecode: true,
  strict: true,
  log: true,
  backend: true,
  authority: true,
  device: true,
  stream: true,
  launchThread: true,
};

const OF_ENGINE = 'it is an option of an Engine, which has a scheduler';
const OF_REQUEST = 'it is a field of a request';

const OF_VERSION = 'it is a rule of vLLM that no option sets alone; like chooses the rules of a version';

/** Hints for options that have other names in vLLM or elsewhere, or that do not exist here. */
export const OPTION_WORDS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(SINGLE_RULES.map((name) => [name, OF_VERSION])),
  numGpuBlocks: 'did you mean numBlocks?',
  numGpuBlocksOverride: 'did you mean numBlocks?',
  gpuMemoryUtilization: 'numBlocks says how large the KV pool is',
  maxBatchSize: 'did you mean maxNumSeqs?',
  contextLength: 'did you mean maxModelLen?',
  maxContextLength: 'did you mean maxModelLen?',
  schedulingPolicy: 'did you mean policy?',
  schedulerReserveFullIsl: 'did you mean reserveFullIsl?',
  asyncScheduling: 'pipelineDepth 2 is async scheduling',
  speculativeConfig: 'numSpeculativeTokens and speculativeMethod say it',
  kvLoadFailurePolicy: 'did you mean loadFailurePolicy?',
  kvTransferConfig: 'did you mean connector?',
  kvConnector: 'did you mean connector?',
  kvEventsConfig: 'did you mean kvEvents?',
  seed: 'did you mean hashSeed? How to sample is a matter of the executor',
  placement: 'backend, authority, device, stream and launchThread say it',
  maxTokens: OF_REQUEST,
  eosTokenId: OF_REQUEST,
  timeoutMs: `${OF_REQUEST}; for all requests there is deadlines`,
};

/** The options of a scheduler, with hints for unknown names. */
export const SCHEDULER_OPTIONS = knownNames<SchedulerOptions>(
  'the options of a Scheduler',
  SCHEDULER_OPTION_NAMES,
  {
    ...OPTION_WORDS,
    executor: OF_ENGINE,
    workers: OF_ENGINE,
    executorTimeoutMs: OF_ENGINE,
    stallSteps: OF_ENGINE,
    submitPlaces: OF_ENGINE,
  },
);

/** The options of a reset of the prefix cache. */
export const RESET_OPTIONS = knownNames<ResetOptions>('the options of resetPrefixCache', {
  resetRunning: true,
  resetConnector: true,
});
