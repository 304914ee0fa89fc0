// The hashes of a prefix cache and of an event, as digits.
import { HASH_BYTES } from '../../src/scheduler/events/kv-event.js';
import type { Scheduler } from '../../src/scheduler/scheduler.js';

/**
 * The hashes that a prefix cache has, as hexadecimal digits; one for each block, so there may be equal ones.
 * @param group the hashes of this KV cache group alone
 */
export function cachedHashes({ core }: Scheduler, group?: number): string[] {
  const ids = [...core.published()].filter((id) => group === undefined || core.publishedGroup(id) === group);
  return ids.map((id) => {
    const hash = core.native.publishedHash(id);
    if (hash === null) throw new Error(`block ${id} is published, and has no hash`);
    return hash.toString(16).padStart(2 * HASH_BYTES, '0');
  });
}

/** The hashes of an event, one behind the other, as hexadecimal digits. */
export function hashesOf(bytes: Uint8Array): string[] {
  const hashes: string[] = [];
  for (let at = 0; at < bytes.length; at += HASH_BYTES)
    hashes.push(hashOf(bytes.subarray(at, at + HASH_BYTES)));
  return hashes;
}

/** The digits of a hash, which is a number in little endian. */
export function hashOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).reverse().toString('hex');
}
