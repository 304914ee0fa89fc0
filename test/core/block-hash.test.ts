// Block hashes follow the named function.
import { describe, expect, it } from 'vitest';
import { PendingOp } from '../../src/core/core.js';
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

/** The hashes of the full blocks of a prompt, by the function that `BLOCK_HASH` names. */
function hashesOf(hashSeed: Uint8Array, blockSize: number, tokens: readonly number[]): bigint[] {
  const rounds = /^SipHash-(\d)-(\d)-128$/.exec(BLOCK_HASH);
  const [c, d] = [Number(rounds?.[1]), Number(rounds?.[2])];
  let hash = sipHash(c, d, hashSeed, new Uint8Array(0));
  return range(Math.floor(tokens.length / blockSize)).map((index) => {
    const message = Buffer.alloc(4 * blockSize + 16);
    const own = tokens.slice(index * blockSize, (index + 1) * blockSize);
    for (const [i, token] of own.entries()) message.writeInt32LE(token, 4 * i);
    message.set(Buffer.from(bytesOf(hash), 'hex'), 4 * blockSize);
    hash = sipHash(c, d, hashSeed, message);
    return hash;
  });
}

describe('the hash of a block', () => {
  it.each(PUBLISHED)('the plain SipHash-$c-$d gives what is published for $length bytes', (vector) => {
    const { c, d, length, output } = vector;
    expect(bytesOf(sipHash(c, d, Uint8Array.from(range(16)), Uint8Array.from(range(length))))).toBe(output);
  });

  it.each([4, 5])('is that function which its name says, with blocks of %i tokens', (blockSize) => {
    const hashSeed = Uint8Array.from(range(16, 3));
    using core = new BenchCore(loadAddon(), { hashSeed, blockSize });
    const tokens = range(3 * blockSize, 70_000);
    const slot = core.open(tokens);
    const hashes = range(3).map((index) => core.native.blockHash(slot, index));
    expect(hashes).toEqual(hashesOf(hashSeed, blockSize, tokens));
  });

  // Up to seven blocks fill in a step, of requests of different lengths: as many as fill all lanes, fewer, and more.
  it.each(range(7, 1))('is the same where %i requests fill one in the same step', (count) => {
    const hashSeed = Uint8Array.from(range(16, 5));
    using core = new BenchCore(loadAddon(), { hashSeed, numRows: 7 });
    const prompts = range(count).map((i) => range(i % 2 === 0 ? 3 : 7, 1000 * i));
    const slots = prompts.map((tokens) => core.start(tokens));
    for (const [i, slot] of slots.entries()) {
      prompts[i].push(i);
      core.push(PendingOp.append, slot, i);
      core.entry(i, slot, prompts[i].length - 1, 1);
    }
    expect(core.native.run(0, 0, count)).toBe(count);
    for (const [i, slot] of slots.entries()) {
      const hashes = hashesOf(hashSeed, 4, prompts[i]);
      expect(hashes.map((_, index) => core.native.publishedHash(core.blocks(slot)[index]))).toEqual(hashes);
    }
    core.native.verify();
  });
});
