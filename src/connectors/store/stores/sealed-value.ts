// The header and checksum of a stored value.
import { crc32 } from 'node:zlib';

/** Bytes of a value before its content. */
export const SEAL_BYTES = 32;
/** `BSKV` in ASCII, the beginning of every value. */
const MAGIC = 0x42534b56;
/** Increased whenever the format changes. Keys contain it too. */
export const SEAL_VERSION = 1;

/**
 * Seals the content of a block with a header. The header consists of 32-bit little-endian words:
 * magic, version, bytes of the content (two words), and a CRC-32. That covers the key, the previous
 * words and the content. The rest is 0. A CRC finds damage; it does not prove who wrote the value.
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
 * Takes the content out of a sealed value. Refused values were truncated, changed, or stored under
 * another key, or have another length or version.
 * @param length required bytes of the content
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

/** Returns the CRC-32 of a key and of a sealed value without its checksum. */
function checksum(key: string, value: Uint8Array): number {
  const ofKey = crc32(key);
  const ofHead = crc32(value.subarray(0, 16), ofKey);
  const ofRest = crc32(value.subarray(20, SEAL_BYTES), ofHead);
  return crc32(value.subarray(SEAL_BYTES), ofRest);
}
