import { randomBytes } from 'node:crypto';
import { parseUint8Array } from '../../base/arrays.js';
import { BlockstepError, checkInteger } from '../../base/errors.js';
import type { SchedulerOptions } from './options.js';

/**
 * The hash seeds that were generated here. No copy of a seed is in the set: a holder of a copy was
 * given it.
 */
const MADE_UP = new WeakSet<Uint8Array>();

/**
 * The key of the block hash, in a new array: the given key, or a random one.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseHashSeed(given: SchedulerOptions['hashSeed'] | null): Uint8Array {
  if (given !== undefined && given !== null) return hashSeedBytes(given);
  const seed = hashSeedBytes(randomBytes(16));
  MADE_UP.add(seed);
  return seed;
}

/** Whether the hash seed of a configuration was generated. Then no other scheduler has it. */
export function isMadeUp(hashSeed: Uint8Array): boolean {
  return MADE_UP.has(hashSeed);
}

/** The 16 bytes of a hash seed: 16 given bytes, or an integer in little endian. @throws ERR_BLOCKSTEP_BAD_ARG */
export function hashSeedBytes(seed: Uint8Array | bigint | number): Uint8Array {
  if (typeof seed === 'object') {
    const bytes = parseUint8Array('hashSeed', seed);
    if (bytes.length === 16) return Uint8Array.from(bytes);
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `hashSeed must be 16 bytes long, got ${bytes.length}`);
  }
  const value =
    typeof seed === 'bigint' ? seed : BigInt(checkInteger('hashSeed', seed, 0, Number.MAX_SAFE_INTEGER));
  if (value < 0n || value >= 1n << 128n) {
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `hashSeed must be from 0 to 2**128 - 1, got ${value}n`);
  }
  const bytes = new Uint8Array(16);
  for (let i = 0; i < 16; i++) bytes[i] = Number((value >> BigInt(8 * i)) & 255n);
  return bytes;
}
