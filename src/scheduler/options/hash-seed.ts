import { randomBytes } from 'node:crypto';
import { hashSeedBytes } from '../../core/core.js';
import type { SchedulerOptions } from './options.js';

/** The hash seeds that were made up here. No copy of one is in the set: whoever has a copy was given it. */
const MADE_UP = new WeakSet<Uint8Array>();

/**
 * The key of the block hash, in an array of its own: the one that was given, or one that is made up.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function takeHashSeed(given: SchedulerOptions['hashSeed'] | null): Uint8Array {
  if (given !== undefined && given !== null) return hashSeedBytes(given);
  const seed = hashSeedBytes(randomBytes(16));
  MADE_UP.add(seed);
  return seed;
}

/** Whether the hash seed of a configuration was made up. Then no other scheduler has it. */
export function isMadeUp(hashSeed: Uint8Array): boolean {
  return MADE_UP.has(hashSeed);
}
