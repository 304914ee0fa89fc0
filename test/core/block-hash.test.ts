import { describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/core/loader.js';
import { BLOCK_HASH } from '../../src/core/native/block-hash.js';
import { BenchCore, range } from '../support/core-bench.js';

const WORD = 2n ** 64n - 1n;

/** SipHash-c-d with 128-bit output as its paper has it; the result as native code writes hashes, in little endian. */
function sipHash(c: number, d: number, seed: Uint8Array, message: Uint8Array): bigint {
  const padded = Buffer.alloc(8 * (Math.floor(message.length / 8) + 1));
  padded.set(message);
  padded[padded.length - 1] = message.length;
  const [k0, k1] = [0, 8].map((at) => Buffer.from(seed).readBigUInt64LE(at));
  const rotate = (x: bigint, by: bigint): bigint => ((x << by) | (x >> (64n - by))) & WORD;
  let v0 = 0x736f6d6570736575n ^ k0;
  let v1 = 0x646f72616e646f6dn ^ k1 ^ 0xeen;
  let v2 = 0x6c7967656e657261n ^ k0;
  let v3 = 0x7465646279746573n ^ k1;
  const rounds = (count: number): void => {
    for (let i = 0; i < count; i++) {
      v0 = (v0 + v1) & WORD;
      v1 = rotate(v1, 13n) ^ v0;
      v0 = rotate(v0, 32n);
      v2 = (v2 + v3) & WORD;
      v3 = rotate(v3, 16n) ^ v2;
      v0 = (v0 + v3) & WORD;
      v3 = rotate(v3, 21n) ^ v0;
      v2 = (v2 + v1) & WORD;
      v1 = rotate(v1, 17n) ^ v2;
      v2 = rotate(v2, 32n);
    }
  };
  for (let at = 0; at < padded.length; at += 8) {
    const word = padded.readBigUInt64LE(at);
    v3 ^= word;
    rounds(c);
    v0 ^= word;
  }
  v2 ^= 0xeen;
  rounds(d);
  const low = v0 ^ v1 ^ v2 ^ v3;
  v1 ^= 0xddn;
  rounds(d);
  return low | ((v0 ^ v1 ^ v2 ^ v3) << 64n);
}

/** Published outputs for an empty message and for one of 15 bytes, under the seed 00 01 .. 0f: of the paper's code, and of Rust's siphasher. */
const PUBLISHED = [
  { c: 2, d: 4, length: 0, output: 'a3817f04ba25a8e66df67214c7550293' },
  { c: 2, d: 4, length: 15, output: '5493e99933b0a8117e08ec0f97cfc3d9' },
  { c: 1, d: 3, length: 0, output: 'e77ebcb22788a5befd62db6add303001' },
];

/** A hash as the 16 bytes in which its digits are published. */
function bytesOf(hash: bigint): string {
  const bytes = Buffer.alloc(16);
  bytes.writeBigUInt64LE(hash & WORD, 0);
  bytes.writeBigUInt64LE(hash >> 64n, 8);
  return bytes.toString('hex');
}

describe('the hash of a block', () => {
  it.each(PUBLISHED)('the plain SipHash-$c-$d gives what is published for $length bytes', (vector) => {
    const { c, d, length, output } = vector;
    expect(bytesOf(sipHash(c, d, Uint8Array.from(range(16)), Uint8Array.from(range(length))))).toBe(output);
  });

  it('is that function which its name says, of the tokens and the hash before', () => {
    const rounds = /^SipHash-(\d)-(\d)-128$/.exec(BLOCK_HASH);
    const [c, d] = [Number(rounds?.[1]), Number(rounds?.[2])];
    const hashSeed = Uint8Array.from(range(16, 3));
    for (const blockSize of [4, 5]) {
      using core = new BenchCore(loadAddon(), { hashSeed, blockSize });
      const tokens = range(3 * blockSize, 70_000);
      const slot = core.open(tokens);
      let hash = sipHash(c, d, hashSeed, new Uint8Array(0));
      for (const index of range(3)) {
        const message = Buffer.alloc(4 * blockSize + 16);
        const own = tokens.slice(index * blockSize, (index + 1) * blockSize);
        for (const [i, token] of own.entries()) message.writeInt32LE(token, 4 * i);
        message.set(Buffer.from(bytesOf(hash), 'hex'), 4 * blockSize);
        hash = sipHash(c, d, hashSeed, message);
        expect(core.native.blockHash(slot, index)).toBe(hash);
      }
    }
  });
});
