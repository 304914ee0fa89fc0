import { readSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/** Bytes in front of the first segment: the identity of the file, and from the middle on the size of its slots. */
export const HEAD_BYTES = 2 ** 14;
/** Where the size of the slots stands. */
const SIZE_AT = HEAD_BYTES / 2;
/** Both halves begin with it, so that damage to one leaves a file known. */
const MAGIC = Buffer.from('blockstep slots\n');
/** Raised whenever the same bytes would mean something else. */
const VERSION = 1;
/** Bytes of magic, version, length and CRC-32 of what follows. */
const PREFIX_BYTES = MAGIC.length + 12;
/** What LMDB has behind the first 16 bytes of a file. */
const LMDB_MAGIC = 0xbeefc0de;

/** Who a file belongs to. */
export interface Identity {
  /** The hash seed of engines that were given none: 32 hex digits. */
  readonly seed: string;
  /** Stands in keys; a new one makes everything in the file worthless. */
  readonly epoch: string;
  /** A hash of what the values are of. */
  readonly names: string;
}

/** What lies in a file: one of ours, with its identity; one that can be used as a new one; a database of LMDB; something else. */
export type Found = { readonly identity: Identity } | 'unused' | 'lmdb' | 'foreign';

/** Looks at the beginning of a file. @throws an error of the file system */
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

/** Bytes of a value; 0: nothing was ever stored, or the size is damaged. @throws an error of the file system */
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

/** Half of a head. */
function closed(body: Buffer): Buffer {
  const half = Buffer.alloc(SIZE_AT);
  MAGIC.copy(half);
  half.writeUInt32LE(VERSION, MAGIC.length);
  half.writeUInt32LE(body.length, MAGIC.length + 4);
  half.writeUInt32LE(crc32(body), MAGIC.length + 8);
  body.copy(half, PREFIX_BYTES);
  return half;
}

/** What `closed` has put there; null: it is damaged, or of another version. */
function opened(half: Buffer): Buffer | null {
  if (!half.subarray(0, MAGIC.length).equals(MAGIC)) return null;
  const length = half.readUInt32LE(MAGIC.length + 4);
  if (half.readUInt32LE(MAGIC.length) !== VERSION || length > half.length - PREFIX_BYTES) return null;
  const body = half.subarray(PREFIX_BYTES, PREFIX_BYTES + length);
  return half.readUInt32LE(MAGIC.length + 8) === crc32(body) ? body : null;
}
