import type { NativeConfig } from './native/native.js';

/**
 * Blocks of a pool that can be in use: all but the null block and the permanent blocks of sinks.
 */
export function usableBlocks({
  numBlocks,
  keptBlocks = 0,
}: Pick<NativeConfig, 'numBlocks' | 'keptBlocks'>): number {
  return numBlocks - 1 - keptBlocks;
}
