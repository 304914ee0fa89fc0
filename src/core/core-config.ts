import { badArgument, checkInteger, show } from '../base/errors.js';
import { checkNames, knownNames } from '../base/known-names.js';
import type { NativeConfig } from './native/native.js';
import type { PlacementOptions } from './placement.js';

/**
 * `NativeConfig` and the placement. Fields that only the border to native code needs have defaults.
 */
export interface CoreConfig
  extends Omit<NativeConfig, 'numFrames' | 'pendingCapacity' | 'lookahead' | 'cuda' | 'authority'>,
    PlacementOptions {
  /**
   * Frames of plan arrays, 1 to 64: one per step in flight, and one for the step being planned.
   * Default 1.
   */
  numFrames?: number;
  /**
   * Pending operations that the exchange buffer holds before they are drained. Default 4 x
   * maxEntries + 64.
   */
  pendingCapacity?: number;
  /** Tokens beyond the scheduled tokens for which `run` reserves blocks. Default 0. */
  lookahead?: number;
  /** Most tokens of one step, which determine the size of the tables of `gather`. Default 8192. */
  maxTokens?: number;
}

const CONFIG = knownNames<CoreConfig>('the config of a Core', {
  numBlocks: true,
  blockSize: true,
  numRows: true,
  maxBlocksPerRow: true,
  maxEntries: true,
  numFrames: true,
  pendingCapacity: true,
  lookahead: true,
  maxTokens: true,
  maxModelLen: true,
  enablePrefixCaching: true,
  hashSeed: true,
  freeOrder: true,
  kvEvents: true,
  kvEventsByBlock: true,
  groups: true,
  keptBlocks: true,
  groupFixes: true,
  retention: true,
  backend: true,
  authority: true,
  device: true,
  stream: true,
  launchThread: true,
});

/** Checks a config, and fills in its defaults. @throws ERR_BLOCKSTEP_BAD_ARG */
export function nativeConfig(config: CoreConfig): NativeConfig {
  if (typeof config !== 'object' || config === null) throw badArgument('config', show(config), 'an object');
  checkNames(config, CONFIG);
  const maxEntries = checkInteger('maxEntries', config.maxEntries, 1, 2 ** 20);
  return {
    numBlocks: config.numBlocks,
    blockSize: config.blockSize,
    numRows: config.numRows,
    maxBlocksPerRow: config.maxBlocksPerRow,
    maxEntries,
    numFrames: checkInteger('numFrames', config.numFrames ?? 1, 1, 64),
    pendingCapacity: checkInteger(
      'pendingCapacity',
      config.pendingCapacity ?? 4 * maxEntries + 64,
      1,
      2 ** 24,
    ),
    lookahead: config.lookahead ?? 0,
    maxModelLen: config.maxModelLen,
    enablePrefixCaching: config.enablePrefixCaching,
    hashSeed: config.hashSeed,
    freeOrder: config.freeOrder ?? 'tail',
    kvEvents: config.kvEvents ?? 'off',
    kvEventsByBlock: config.kvEventsByBlock ?? false,
    ...(config.groups !== undefined && { groups: config.groups }),
    ...(config.keptBlocks !== undefined && { keptBlocks: config.keptBlocks }),
    ...(config.groupFixes !== undefined && { groupFixes: config.groupFixes }),
    ...(config.retention !== undefined && { retention: config.retention }),
  };
}
