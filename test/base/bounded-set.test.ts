// The set stays within its limit.
import { expect, it } from 'vitest';
import { BoundedSet } from '../../src/base/collections/bounded-set.js';

it('what is remembered is bounded, and the oldest go first', () => {
  const known = new BoundedSet<bigint>(3);
  for (const hash of [1n, 2n, 3n, 1n, 4n]) known.add(hash);
  expect([1n, 2n, 3n, 4n].map((hash) => known.has(hash))).toEqual([true, false, true, true]);
  expect(known.size).toBe(3);
});
