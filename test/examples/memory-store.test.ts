// The block store in memory is the program that docs/connectors.md shows, and keeps its bound.
import { expect, it } from 'vitest';
import { MemoryStore } from '../../examples/memory-store.js';
import { Outcome } from '../../src/connectors/store/index.js';
import { shownClass } from './shown.js';

it('the store in memory is the one that docs/connectors.md shows', () => {
  const own = shownClass('examples/memory-store.ts', 'MemoryStore');
  expect(own.length).toBeGreaterThan(500);
  expect(shownClass('docs/connectors.md', 'MemoryStore')).toBe(own);
});

it('the store in memory keeps its bound, and what was used last', async () => {
  const store = new MemoryStore(30);
  const put = (...keys: string[]) =>
    store.put(
      keys,
      keys.map(() => new Uint8Array(10)),
    );
  const { done, missing } = Outcome;
  expect([...(await put('a', 'b', 'c'))]).toEqual([done, done, done]);
  await store.get(['a', 'x'], (index, value) => expect(value?.length ?? null).toBe([10, null][index]));
  await put('d');
  expect([...(await store.has(['a', 'b', 'c', 'd']))]).toEqual([done, missing, done, done]);
  // A block that is stored once more takes no more room.
  await put('c', 'c');
  expect([...(await store.has(['a', 'c', 'd']))]).toEqual([done, done, done]);
  await store.remove(['a', 'nothing']);
  await put('e');
  expect([...(await store.has(['a', 'c', 'd', 'e']))]).toEqual([missing, done, done, done]);
});
