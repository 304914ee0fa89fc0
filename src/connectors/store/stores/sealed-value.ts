import { crc32 } from 'node:zlib';

/** Bytes that a value has before its content. */
export const SEAL_BYTES = 32;
/** `BSKV` in ASCII: what every value begins with. */
const MAGIC = 0x42534b56;
/** Raised whenever the same bytes would mean something else. Keys have it too. */
export const SEAL_VERSION = 1;

/**
 * Seals the content of a block: puts a header before it that says what it is. The header has, in 32-bit words of little
 * endian: magic, version, bytes of the content (two words), CRC-32 of the key, of the words before and of the content;
 * the rest is 0. A CRC finds damage; it does not prove who wrote the value.
 * @returns a new buffer
 */
export function seal(key: string, content: Uint8Array): Uint8Array {
  const value = Buffer.allocUnsafeSlow(SEAL_BYTES + content.length);
  value.fill(0, 0, SEAL_BYTES);
  value.writeUInt32LE(MAGIC, 0);
  value.writeUInt32LE(SEAL_VERSION, 4);
  value.writeUInt32LE(content.length % 2 ** 32, 8);
  value.writeUInt32LE(Math.floor(content.length / 2 ** 32), 12);
  value.set(content, SEAL_BYTES);
  value.writeUInt32LE(checksum(key, value), 16);
  return value;
}

/**
 * Takes the content out of a sealed value. A value that was truncated, changed, stored under another key, or that is of
 * another length or version, is refused.
 * @param length bytes that the content must have
 * @returns the content, as a view of the value; null if the value is refused
 */
export function unseal(key: string, value: Uint8Array, length: number): Uint8Array | null {
  if (value.length !== SEAL_BYTES + length) return null;
  const words = new DataView(value.buffer, value.byteOffset, SEAL_BYTES);
  const isOurs = words.getUint32(0, true) === MAGIC && words.getUint32(4, true) === SEAL_VERSION;
  const noted = words.getUint32(8, true) + words.getUint32(12, true) * 2 ** 32;
  if (!isOurs || noted !== length) return null;
  return words.getUint32(16, true) === checksum(key, value) ? value.subarray(SEAL_BYTES) : null;
}

/** The CRC-32 of a key and of a sealed value, without the checksum itself. */
function checksum(key: string, value: Uint8Array): number {
  const ofKey = crc32(key);
  const ofHead = crc32(value.subarray(0, 16), ofKey);
  const ofRest = crc32(value.subarray(20, SEAL_BYTES), ofHead);
  return crc32(value.subarray(SEAL_BYTES), ofRest);
}
