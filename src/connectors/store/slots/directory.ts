// The places of slots in a file, and the entries with their contents.
import { crc32 } from 'node:zlib';
import { HEAD_BYTES } from './head.js';

/**
 * Slots of a segment. Their entries are stored together at the segment's beginning, and are read at
 * once when the file is opened.
 */
export const SEGMENT_SLOTS = 1024;
const ENTRY_BYTES = 64;
/** Bytes of the entries of a segment. */
export const DIRECTORY_BYTES = SEGMENT_SLOTS * ENTRY_BYTES;
/** Bytes of a slot before its value: the length of the key, and the key. */
export const KEY_BYTES = 128;
/** Slots consist of whole pages, so no page belongs to two slots. */
const UNIT = 4096;
/** Maximum number of slots of a file. Each slot takes about 100 bytes of memory. */
const MOST_SLOTS = 2 ** 22;

/** Byte offsets of the fields of an entry. */
const Field = { crc: 0, valueBytes: 4, order: 8, name: 16 } as const;
/** Bytes of a name: the first bytes of the SHA-256 of a key. */
export const NAME_BYTES = 16;

/** An entry: the slot holds the value of a key. */
export interface Entry {
  /** The name of the key, as Latin-1. */
  readonly name: string;
  /** The order number, which rises from one store to the next. */
  readonly order: number;
}

/** Calculates where the slots of a file are. All slots have one size. */
export class SlotLayout {
  readonly valueBytes: number;
  readonly slotBytes: number;
  /** Maximum number of slots of the file. */
  readonly mostSlots: number;

  constructor(valueBytes: number, maxBytes: number) {
    this.valueBytes = valueBytes;
    this.slotBytes = slotBytesOf(valueBytes);
    this.mostSlots = Math.min(MOST_SLOTS, Math.floor(maxBytes / this.slotBytes));
  }

  /** Returns the byte offset of a segment's entries. */
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

  /** Encodes an entry; null: the slot is free. */
  writeEntry(entry: Entry | null): Buffer {
    const bytes = Buffer.alloc(ENTRY_BYTES);
    if (entry === null) return bytes;
    bytes.writeUInt32LE(this.valueBytes, Field.valueBytes);
    bytes.writeDoubleLE(entry.order, Field.order);
    bytes.write(entry.name, Field.name, 'latin1');
    bytes.writeUInt32LE(crc32(bytes.subarray(Field.valueBytes)), Field.crc);
    return bytes;
  }

  /** Decodes a slot's entry from the entries of its segment; null: the slot is free or damaged. */
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
