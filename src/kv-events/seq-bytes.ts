/** The number of a batch on the wire: 8 bytes, big endian. */
export function seqBytes(seq: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(seq));
  return bytes;
}
