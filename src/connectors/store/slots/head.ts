// The beginning of a slot file: its owner, and the size of its slots.
import { readSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/**
 * Bytes before the first segment. The first half has the identity of the file, the second half the
 * size of its slots.
 */
export const HEAD_BYTES = 2 ** 14;
/** Byte offset of the size of the slots. */
const SIZE_AT = HEAD_BYTES / 2;
/** Both halves begin with it, so a file with one damaged half is still recognized. */
const MAGIC = Buffer.from('blockstep slots\n');
/** Increased whenever the format changes. */
const VERSION = 1;
/** Bytes of the magic, the version, the length, and the CRC-32 of the body. */
const PREFIX_BYTES = MAGIC.length + 12;
/** The magic number of LMDB after the first 16 bytes of a file. */
const LMDB_MAGIC = 0xbeefc0de;

/** The owner of a file. */
export interface Identity {
  /** The hash seed of engines without a configured seed: 32 hex digits. */
  readonly seed: string;
  /** A part of all keys. A new epoch invalidates all values in the file. */
  readonly epoch: string;
  /** A hash of the names of the values' origin, such as the model. */
  readonly names: string;
}

/**
 * The kind of a file: a slot file with its identity, a file that can be overwritten, a database of
 * LMDB, or another file.
 */
export type Found = { readonly identity: Identity } | 'unused' | 'lmdb' | 'foreign';

/** Reads the beginning of a file. @throws an error of the file system */
export function readIdentity(fd: number): Found {
  const head = Buffer.alloc(HEAD_BYTES);
  readSync(fd, head, 0, HEAD_BYTES, 0);
  const body = opened(head.subarray(0, SIZE_AT));
  if (body !== null) {
    try {
      return { identity: JSON.parse(body.toString()) as Identity };
    } catch {
      return 'unused';
    }
  }
  const isOurs = [0, SIZE_AT].some((at) => head.subarray(at, at + MAGIC.length).equals(MAGIC));
  if (isOurs || head.every((byte) => byte === 0)) return 'unused';
  return head.readUInt32LE(16) === LMDB_MAGIC ? 'lmdb' : 'foreign';
}

/** @throws an error of the file system */
export function writeIdentity(fd: number, identity: Identity): void {
  writeSync(fd, closed(Buffer.from(JSON.stringify(identity))), 0, SIZE_AT, 0);
}

/**
 * Returns the bytes of a value; 0: nothing was ever stored, or the size is damaged. @throws an
 * error of the file system
 */
export function readValueBytes(fd: number): number {
  const half = Buffer.alloc(SIZE_AT);
  readSync(fd, half, 0, SIZE_AT, SIZE_AT);
  return opened(half)?.readUInt32LE(0) ?? 0;
}

/** @throws an error of the file system */
export function writeValueBytes(fd: number, valueBytes: number): void {
  const body = Buffer.alloc(4);
  body.writeUInt32LE(valueBytes);
  writeSync(fd, closed(body), 0, SIZE_AT, SIZE_AT);
}

/** Encodes one half of a head. */
function closed(body: Buffer): Buffer {
  const half = Buffer.alloc(SIZE_AT);
  MAGIC.copy(half);
  half.writeUInt32LE(VERSION, MAGIC.length);
  half.writeUInt32LE(body.length, MAGIC.length + 4);
  half.writeUInt32LE(crc32(body), MAGIC.length + 8);
  body.copy(half, PREFIX_BYTES);
  return half;
}

/** Decodes the body of one half; null: the half is damaged or of another version. */
function opened(half: Buffer): Buffer | null {
  if (!half.subarray(0, MAGIC.length).equals(MAGIC)) return null;
  const length = half.readUInt32LE(MAGIC.length + 4);
  if (half.readUInt32LE(MAGIC.length) !== VERSION || length > half.length - PREFIX_BYTES) return null;
  const body = half.subarray(PREFIX_BYTES, PREFIX_BYTES + length);
  return half.readUInt32LE(MAGIC.length + 8) === crc32(body) ? body : null;
}
