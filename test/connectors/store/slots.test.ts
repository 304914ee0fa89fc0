// A file of slots: hits, the order of removal, values of another size.
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { seal } from '../../../src/connectors/store/stores/sealed-value.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { namesOf, openSlots, put, SIZE, whole } from './support/slots.js';

const { done: DONE, missing: MISSING, full: FULL } = Outcome;

function newPath(): string {
  return join(temporaryFolder(), 'kv.slots');
}

/** Slots of values of `SIZE` bytes in 1 MiB: a slot has whole pages of 4,096 bytes. */
const MOST = Math.floor(2 ** 20 / (4096 * Math.ceil((SIZE + 32 + 128) / 4096)));

describe('a file of slots', () => {
  it('gives back what was put, also after it was closed, and nothing else', async () => {
    const path = newPath();
    let slots = openSlots(path);
    const names = namesOf('a', 50);
    expect([...(await put(slots.store, names))]).toEqual(names.map(() => DONE));
    expect([...(await slots.store.has(['a3', 'b', 'a49']))]).toEqual([DONE, MISSING, DONE]);
    expect(await whole(slots.store, [...names, 'b'])).toBe(50);
    await slots.store.remove(['a3', 'b']);
    expect(await whole(slots.store, names)).toBe(49);
    slots.close();
    slots = openSlots(path);
    expect(await whole(slots.store, names)).toBe(49);
    expect([...(await put(slots.store, ['a3']))]).toEqual([DONE]);
    expect(await whole(slots.store, names)).toBe(50);
    slots.close();
  });

  it('removes what was unused for longest, and keeps its bound', async () => {
    const path = newPath();
    let slots = openSlots(path, 2 ** 20);
    const first = namesOf('a', MOST);
    await put(slots.store, first);
    expect(await whole(slots.store, ['a0', 'a5'])).toBe(2);
    await put(slots.store, namesOf('b', 10));
    expect(await whole(slots.store, ['a0', 'a5'])).toBe(2);
    expect(await whole(slots.store, namesOf('b', 10))).toBe(10);
    expect(await whole(slots.store, [...first, ...namesOf('b', 10)])).toBe(MOST);
    slots.close();
    // After a restart what was stored last counts as used last.
    slots = openSlots(path, 2 ** 20);
    await put(slots.store, namesOf('c', MOST - 10));
    expect(await whole(slots.store, namesOf('b', 10))).toBe(10);
    for (let round = 0; round < 60; round++) await put(slots.store, namesOf(`d${round}-`, 30));
    expect(await whole(slots.store, namesOf('d59-', 30))).toBe(30);
    expect(statSync(path).size).toBeLessThan(2 ** 20 + 2 ** 17);
    slots.close();
  });

  it('has no slot where its bound is smaller than one', async () => {
    const slots = openSlots(newPath(), 2 ** 20);
    expect([...(await put(slots.store, ['large'], 2 ** 20))]).toEqual([FULL]);
    slots.close();
  });

  it('writes nothing twice, and one key of a call once', async () => {
    const path = newPath();
    const slots = openSlots(path);
    expect([...(await put(slots.store, ['a', 'b', 'a']))]).toEqual([DONE, DONE, DONE]);
    const before = readFileSync(path);
    expect([...(await put(slots.store, ['b', 'a']))]).toEqual([DONE, DONE]);
    expect(readFileSync(path).equals(before)).toBe(true);
    slots.close();
  });

  it('is emptied by values of another size, and refuses a third size until it is opened again', async () => {
    const path = newPath();
    let slots = openSlots(path);
    await put(slots.store, namesOf('a', 5));
    slots.close();
    slots = openSlots(path);
    await put(slots.store, namesOf('b', 5), 500);
    expect(await whole(slots.store, namesOf('a', 5))).toBe(0);
    expect(await whole(slots.store, namesOf('b', 5), 500)).toBe(5);
    await expect(put(slots.store, ['c'], 300)).rejects.toThrow(
      'the file has slots for values of 532 bytes, got a value of 332',
    );
    expect(await whole(slots.store, namesOf('b', 5), 500)).toBe(5);
    slots.close();
  });

  it('has as many slots as its bound says when it is opened', async () => {
    const path = newPath();
    let slots = openSlots(path, 2 ** 21);
    await put(slots.store, namesOf('a', 2 * MOST));
    expect(await whole(slots.store, namesOf('a', 2 * MOST))).toBe(2 * MOST);
    slots.close();
    slots = openSlots(path, 2 ** 20);
    expect(await whole(slots.store, namesOf('a', 2 * MOST))).toBe(MOST);
    await put(slots.store, namesOf('b', 5));
    expect(await whole(slots.store, namesOf('a', 2 * MOST))).toBe(MOST - 5);
    slots.close();
  });

  it('serves many calls at once while everything in it is replaced', async () => {
    const slots = openSlots(newPath(), 2 ** 20);
    const rounds = Array.from({ length: 12 }, (_, round) => namesOf(`r${round}-`, 40));
    const calls = rounds.flatMap((names, round) => [
      put(slots.store, names).then((outcomes) => expect(outcomes.includes(Outcome.failed)).toBe(false)),
      whole(slots.store, rounds[Math.max(0, round - 1)]),
      slots.store.remove(names.slice(0, 3)),
    ]);
    await Promise.all(calls);
    const all = rounds.flat();
    const there = (await slots.store.has(all)).filter((outcome) => outcome === DONE).length;
    expect(await whole(slots.store, all)).toBe(there);
    expect(there).toBeLessThanOrEqual(MOST);
    slots.close();
  });

  it('finds nothing under a key whose value it has under another one', async () => {
    const slots = openSlots(newPath());
    const value = seal('a', Buffer.alloc(SIZE, 'a'));
    await slots.store.put(['b'], [value]);
    // The store returns the stored bytes; the seal shows whose value they are.
    expect(await whole(slots.store, ['a'])).toBe(0);
    slots.close();
  });
});
