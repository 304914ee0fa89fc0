import { crc32 } from 'node:zlib';
import { HEAD_BYTES } from './head.js';

/** Slots of a segment: their entries lie together in front of them, and are read at once when the file is opened. */
export const SEGMENT_SLOTS = 1024;
const ENTRY_BYTES = 64;
/** Bytes of the entries of a segment. */
export const DIRECTORY_BYTES = SEGMENT_SLOTS * ENTRY_BYTES;
/** Bytes of a slot in front of its value: length of the key, and the key. */
export const KEY_BYTES = 128;
/** Slots have whole pages: no page is written for two of them. */
const UNIT = 4096;
/** Most slots of a file: each takes some 100 bytes of memory. */
const MOST_SLOTS = 2 ** 22;

/** The fields of an entry, by byte. */
const Field = { crc: 0, valueBytes: 4, order: 8, name: 16 } as const;
/** Bytes of a name: the first ones of the SHA-256 of a key. */
export const NAME_BYTES = 16;

/** What an entry says: the slot holds the value of a key. */
export interface Entry {
  /** Of the key, as Latin-1. */
  readonly name: string;
  /** Rises from one store to the next. */
  readonly order: number;
}

/** Where the slots of a file lie, all of one size. */
export class SlotLayout {
  readonly valueBytes: number;
  readonly slotBytes: number;
  /** Slots that the file may have. */
  readonly mostSlots: number;

  constructor(valueBytes: number, maxBytes: number) {
    this.valueBytes = valueBytes;
    this.slotBytes = slotBytesOf(valueBytes);
    this.mostSlots = Math.min(MOST_SLOTS, Math.floor(maxBytes / this.slotBytes));
  }

  /** Where the entries of a segment begin. */
  directoryAt(segment: number): number {
    return HEAD_BYTES + segment * (DIRECTORY_BYTES + SEGMENT_SLOTS * this.slotBytes);
  }

  entryAt(slot: number): number {
    return this.directoryAt(Math.floor(slot / SEGMENT_SLOTS)) + (slot % SEGMENT_SLOTS) * ENTRY_BYTES;
  }

  slotAt(slot: number): number {
    const segment = Math.floor(slot / SEGMENT_SLOTS);
    return this.directoryAt(segment) + DIRECTORY_BYTES + (slot % SEGMENT_SLOTS) * this.slotBytes;
  }

  /** An entry; null: the slot is free. */
  writeEntry(entry: Entry | null): Buffer {
    const bytes = Buffer.alloc(ENTRY_BYTES);
    if (entry === null) return bytes;
    bytes.writeUInt32LE(this.valueBytes, Field.valueBytes);
    bytes.writeDoubleLE(entry.order, Field.order);
    bytes.write(entry.name, Field.name, 'latin1');
    bytes.writeUInt32LE(crc32(bytes.subarray(Field.valueBytes)), Field.crc);
    return bytes;
  }

  /** The entry of a slot in the entries of its segment; null: it is free, or damaged. */
  readEntry(directory: Buffer, index: number): Entry | null {
    const bytes = directory.subarray(index * ENTRY_BYTES, (index + 1) * ENTRY_BYTES);
    if (bytes.readUInt32LE(Field.valueBytes) !== this.valueBytes) return null;
    if (bytes.readUInt32LE(Field.crc) !== crc32(bytes.subarray(Field.valueBytes))) return null;
    const name = bytes.toString('latin1', Field.name, Field.name + NAME_BYTES);
    return { name, order: bytes.readDoubleLE(Field.order) };
  }
}

/** Bytes that a value takes in a file. */
export function slotBytesOf(valueBytes: number): number {
  return UNIT * Math.ceil((KEY_BYTES + valueBytes) / UNIT);
}
