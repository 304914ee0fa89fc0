// A file of slots, and values with known content.
import { expect } from 'vitest';
import { SlotFile, type SlotFileOptions } from '../../../../src/connectors/store/slots/slot-file.js';
import { SlotStore } from '../../../../src/connectors/store/slots/slot-store.js';
import { seal, unseal } from '../../../../src/connectors/store/stores/sealed-value.js';

/** Bytes of content. */
export const SIZE = 10_000;

/** A file of slots, open in this thread. */
export interface OpenSlots {
  readonly file: SlotFile;
  readonly store: SlotStore;
  close(): void;
}

export function openSlots(path: string, maxBytes = 2 ** 24, options: SlotFileOptions = {}): OpenSlots {
  const file = SlotFile.open(path, options);
  return { file, store: new SlotStore(file.fd, maxBytes), close: () => file.release() };
}

export function put(store: SlotStore, keys: readonly string[], size = SIZE): Promise<Uint8Array> {
  return store.put(
    keys,
    keys.map((key) => seal(key, Buffer.alloc(size, key))),
  );
}

/** How many of the keys have a value that is not refused. Each of them must be the right one. */
export async function whole(store: SlotStore, keys: readonly string[], size = SIZE): Promise<number> {
  let count = 0;
  await store.get(keys, (i, value) => {
    const content = value === null ? null : unseal(keys[i], value, size);
    if (content === null) return;
    expect(Buffer.alloc(size, keys[i]).equals(content), keys[i]).toBe(true);
    count++;
  });
  return count;
}

export function namesOf(letter: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${letter}${i}`);
}
