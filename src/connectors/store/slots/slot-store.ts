import { createHash } from 'node:crypto';
import { fstatSync, ftruncateSync, read, readSync, write, writev } from 'node:fs';
import { promisify } from 'node:util';
import { type BlockStore, Outcome, type Visit } from '../stores/block-store.js';
import {
  DIRECTORY_BYTES,
  type Entry,
  KEY_BYTES,
  NAME_BYTES,
  SEGMENT_SLOTS,
  SlotLayout,
} from './directory.js';
import { HEAD_BYTES, readValueBytes, writeValueBytes } from './head.js';

const readAt = promisify(read);
const writeAt = promisify(write);
const writeAllAt = promisify(writev);

/** Maximum number of reads and writes under way at once in one call. */
const AT_ONCE = 8;
/** Error codes of the file system for a full disk or an exhausted quota. */
const FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/**
 * A store in a file of slots of one size: a cache that survives the end of its engine. The file is
 * already open and locked (`SlotFile`), and belongs to this process. The file threads of Node read
 * and write it at byte offsets.
 *
 * While the file is open, the index of the slots is only in memory, in the order of use. After a
 * restart, the index is rebuilt from the entries in the file, in the order of storing. A value is
 * written first, then its entry. After an interruption or damage, values are therefore not found,
 * or found and refused. A slot holds its whole key, and a value holds its checksum.
 */
export class SlotStore implements BlockStore {
  readonly #fd: number;
  readonly #maxBytes: number;
  /** Null: nothing was ever stored. */
  #layout: SlotLayout | null;
  /** Whether a value was stored, or matched the size of the slots, since the file was opened. */
  #isFixed = false;
  /** By name of the key: the slots with a value, the least recently used first. */
  readonly #slots = new Map<string, number>();
  /** By name: the stores under way. */
  readonly #underWay = new Map<string, Promise<Outcome>>();
  readonly #free: number[] = [];
  /** Number of slots in the file, used or free. */
  #numSlots = 0;
  /** The first slot for which the disk had no room, and the slots that could not be written. */
  #fullAt = Number.POSITIVE_INFINITY;
  readonly #roomless: number[] = [];
  /** Number of values that were evicted since the disk was full. */
  #numReplaced = 0;
  #order = 0;
  /** By slot: number of reads under way. */
  readonly #readers = new Map<number, number>();
  /** Slots that become free when no read uses them. */
  readonly #leaving = new Set<number>();

  /** Reads the entries of a file. @throws an error of the file system */
  constructor(fd: number, maxBytes: number) {
    this.#fd = fd;
    this.#maxBytes = maxBytes;
    const valueBytes = readValueBytes(fd);
    this.#layout = valueBytes === 0 ? null : new SlotLayout(valueBytes, maxBytes);
    if (this.#layout !== null) this.#readEntries(this.#layout);
  }

  has(keys: readonly string[]): Promise<Uint8Array> {
    const there = keys.map((key) => (this.#slots.has(nameOf(key)) ? Outcome.done : Outcome.missing));
    return Promise.resolve(Uint8Array.from(there));
  }

  async get(keys: readonly string[], visit: Visit): Promise<void> {
    const layout = this.#layout;
    await some(keys.length, async (i) => {
      const value = layout === null ? null : await this.#read(layout, keys[i]);
      visit(i, value);
    });
  }

  async put(keys: readonly string[], values: readonly Uint8Array[]): Promise<Uint8Array> {
    const outcomes = new Uint8Array(keys.length);
    await some(keys.length, async (i) => {
      try {
        const layout = this.#layoutFor(values[i].length);
        outcomes[i] = await this.#write(layout, keys[i], values[i]);
      } catch (error) {
        if (!isFull(error)) throw error;
        outcomes[i] = Outcome.full;
      }
    });
    return outcomes;
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      const name = nameOf(key);
      const slot = this.#slots.get(name);
      const layout = this.#layout;
      if (slot === undefined || layout === null) continue;
      this.#slots.delete(name);
      // The slot must not be reused before its entry is cleared.
      await writeAt(this.#fd, layout.writeEntry(null), 0, undefined, layout.entryAt(slot));
      this.#give(slot);
    }
  }

  /** All stored values are in the file. The caller that opened the file closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  #readEntries(layout: SlotLayout): void {
    const { size } = fstatSync(this.#fd);
    const found: (Entry & { readonly slot: number })[] = [];
    const directory = Buffer.alloc(DIRECTORY_BYTES);
    for (let segment = 0; layout.directoryAt(segment) < size; segment++) {
      directory.fill(0);
      readSync(this.#fd, directory, 0, DIRECTORY_BYTES, layout.directoryAt(segment));
      for (let index = 0; index < SEGMENT_SLOTS; index++) {
        const entry = layout.readEntry(directory, index);
        const slot = segment * SEGMENT_SLOTS + index;
        if (entry !== null && slot < layout.mostSlots) found.push({ ...entry, slot });
      }
    }
    found.sort((a, b) => a.order - b.order);
    for (const { name, order, slot } of found) {
      // A value that was stored later also comes later in the order of use.
      this.#slots.delete(name);
      this.#slots.set(name, slot);
      if (Number.isFinite(order)) this.#order = Math.max(this.#order, order);
    }
    this.#numSlots = found.reduce((most, { slot }) => Math.max(most, slot + 1), 0);
    const used = new Set(this.#slots.values());
    for (let slot = this.#numSlots - 1; slot >= 0; slot--) if (!used.has(slot)) this.#free.push(slot);
  }

  /**
   * Returns the layout for values of a size. If the file has slots of another size, the first
   * stored value empties it.
   * @throws if values of another size were stored since the file was opened
   */
  #layoutFor(valueBytes: number): SlotLayout {
    if (this.#layout?.valueBytes === valueBytes) {
      this.#isFixed = true;
      return this.#layout;
    }
    if (this.#layout !== null && this.#isFixed)
      throw new Error(
        `the file has slots for values of ${this.#layout.valueBytes} bytes, got a value of ${valueBytes}: give engines whose blocks differ a file each`,
      );
    ftruncateSync(this.#fd, HEAD_BYTES);
    writeValueBytes(this.#fd, valueBytes);
    this.#slots.clear();
    this.#free.length = 0;
    this.#roomless.length = 0;
    this.#numSlots = 0;
    this.#isFixed = true;
    this.#layout = new SlotLayout(valueBytes, this.#maxBytes);
    return this.#layout;
  }

  async #read(layout: SlotLayout, key: string): Promise<Uint8Array | null> {
    const name = nameOf(key);
    const slot = this.#slots.get(name);
    if (slot === undefined) return null;
    this.#touch(name, slot);
    this.#readers.set(slot, (this.#readers.get(slot) ?? 0) + 1);
    const bytes = Buffer.allocUnsafeSlow(KEY_BYTES + layout.valueBytes);
    try {
      const { bytesRead } = await readAt(this.#fd, bytes, 0, bytes.length, layout.slotAt(slot));
      if (bytesRead === bytes.length && keyOf(bytes) === key) return bytes.subarray(KEY_BYTES);
    } finally {
      this.#endRead(slot);
    }
    // The slot has another key's value, or none. The name is removed so that it is not found again.
    if (this.#slots.get(name) === slot) {
      this.#slots.delete(name);
      this.#give(slot);
    }
    return null;
  }

  #endRead(slot: number): void {
    const left = (this.#readers.get(slot) ?? 1) - 1;
    if (left > 0) {
      this.#readers.set(slot, left);
      return;
    }
    this.#readers.delete(slot);
    if (this.#leaving.delete(slot)) this.#free.push(slot);
  }

  #write(layout: SlotLayout, key: string, value: Uint8Array): Promise<Outcome> {
    const name = nameOf(key);
    const slot = this.#slots.get(name);
    if (slot !== undefined) {
      // Equal keys mean equal values.
      this.#touch(name, slot);
      return Promise.resolve(Outcome.done);
    }
    let under = this.#underWay.get(name);
    if (under === undefined) {
      under = this.#store(layout, key, name, value).finally(() => this.#underWay.delete(name));
      this.#underWay.set(name, under);
    }
    return under;
  }

  async #store(layout: SlotLayout, key: string, name: string, value: Uint8Array): Promise<Outcome> {
    const slot = this.#takeSlot(layout);
    if (slot < 0) return Outcome.full;
    const head = Buffer.alloc(KEY_BYTES);
    head.writeUInt32LE(key.length);
    head.write(key, 4, 'latin1');
    try {
      const { bytesWritten } = await writeAllAt(this.#fd, [head, value], layout.slotAt(slot));
      // A disk can become full in the middle of a value.
      if (bytesWritten !== KEY_BYTES + value.length) return this.#full(slot);
      const entry = layout.writeEntry({ name, order: ++this.#order });
      await writeAt(this.#fd, entry, 0, undefined, layout.entryAt(slot));
    } catch (error) {
      if (isFull(error)) return this.#full(slot);
      this.#free.push(slot);
      throw error;
    }
    this.#slots.set(name, slot);
    return Outcome.done;
  }

  /** Takes a free slot, or else the slot of the least recently used value; -1: there is none. */
  #takeSlot(layout: SlotLayout): number {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    if (this.#numSlots < Math.min(layout.mostSlots, this.#fullAt)) return this.#numSlots++;
    for (const [name, slot] of this.#slots) {
      if (this.#readers.has(slot)) continue;
      this.#slots.delete(name);
      // From time to time, the store tries whether the disk has room again.
      if (++this.#numReplaced % SEGMENT_SLOTS === 0) {
        this.#fullAt = Number.POSITIVE_INFINITY;
        this.#free.push(...this.#roomless.splice(0));
      }
      return slot;
    }
    return -1;
  }

  /** The disk had no room for a slot. Earlier slots can still be used. */
  #full(slot: number): Outcome {
    this.#fullAt = Math.min(this.#fullAt, slot);
    this.#roomless.push(slot);
    return Outcome.full;
  }

  #give(slot: number): void {
    if (this.#readers.has(slot)) this.#leaving.add(slot);
    else this.#free.push(slot);
  }

  #touch(name: string, slot: number): void {
    this.#slots.delete(name);
    this.#slots.set(name, slot);
  }
}

function isFull(error: unknown): boolean {
  return FULL.has((error as NodeJS.ErrnoException).code);
}

/** Returns the key before a value. */
function keyOf(slot: Buffer): string | null {
  const length = slot.readUInt32LE(0);
  return length <= KEY_BYTES - 4 ? slot.toString('latin1', 4, 4 + length) : null;
}

function nameOf(key: string): string {
  return createHash('sha256').update(key).digest().toString('latin1', 0, NAME_BYTES);
}

/**
 * Calls `act` for each index, `AT_ONCE` calls at a time. @throws the first error, after all calls
 * have ended
 */
async function some(count: number, act: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await act(next++);
  };
  const ended = await Promise.allSettled(Array.from({ length: Math.min(AT_ONCE, count) }, lane));
  for (const each of ended) if (each.status === 'rejected') throw each.reason;
}
