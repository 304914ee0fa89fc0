// Large values in a stream of replies.
import { expect, it } from 'vitest';
import { BulkReader } from '../../../src/connectors/store/stores/bulk-reader.js';
import { Random } from '../../support/engine-bench.js';

/** Values are parts of this: to draw each of their bytes would take a minute. */
const NOISE = noise();

function noise(): Buffer {
  const random = new Random(0);
  return Buffer.from(Array.from({ length: 2 ** 18 }, () => random.below(256)));
}

/** Feeds bytes in pieces of random sizes, as a socket would. @returns what passed */
function feed(stream: Buffer, random: Random, reader: BulkReader, passed: Buffer[]): Buffer {
  for (let at = 0; at < stream.length; ) {
    const room = reader.room();
    const count = Math.min(1 + random.below(random.chance(20) ? 8 : 50_000), room.length, stream.length - at);
    stream.copy(room, 0, at, at + count);
    reader.receive(count);
    at += count;
  }
  return Buffer.concat(passed);
}

it('large values come whole, whatever the pieces; everything else passes as it is', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const passed: Buffer[] = [];
    const reader = new BulkReader((bytes) => passed.push(Buffer.from(bytes)));
    const replies: Buffer[] = [];
    const large: Buffer[] = [];
    for (let i = 0; i < 12; i++) {
      const size = random.chance(50) ? 16_000 + random.below(60_000) : random.below(400);
      const from = random.below(NOISE.length - size);
      const value = NOISE.subarray(from, from + size);
      const bulk = Buffer.concat([Buffer.from(`$${size}\r\n`), value, Buffer.from('\r\n')]);
      const others = ['+OK\r\n', ':1\r\n', '$-1\r\n', '-ERR no\r\n', '$0\r\n\r\n'];
      const isBulk = random.chance(60);
      replies.push(isBulk ? bulk : Buffer.from(others[random.below(others.length)]));
      if (isBulk && size >= 2 ** 14) large.push(value);
    }
    const seen = feed(Buffer.concat(replies), random, reader, passed);
    // The bytes that passed, with every stand-in replaced by its original, are the stream.
    const whole: Buffer[] = [];
    let at = 0;
    for (const value of large) {
      const begin = seen.indexOf('blockstep bulk ', at);
      const end = seen.indexOf('\r\n', begin);
      const head = seen.lastIndexOf('$', begin);
      const opened = reader.open(Buffer.from(seen.subarray(begin, end)));
      expect(opened.equals(value)).toBe(true);
      whole.push(seen.subarray(at, head), Buffer.from(`$${value.length}\r\n`), opened);
      at = end;
    }
    whole.push(seen.subarray(at));
    expect(Buffer.concat(whole).equals(Buffer.concat(replies)), `seed ${seed}`).toBe(true);
  }
});

it('buffers that were given back are used again, and a reply that only looks like a stand-in is itself', () => {
  const passed: Buffer[] = [];
  const reader = new BulkReader((bytes) => passed.push(Buffer.from(bytes)));
  const values = new Set<ArrayBufferLike>();
  for (let i = 0; i < 20; i++) {
    const stream = Buffer.concat([Buffer.from('$20000\r\n'), Buffer.alloc(20_000, i), Buffer.from('\r\n')]);
    feed(stream, new Random(i + 1), reader, passed);
    const name = /blockstep bulk \d+/.exec(passed.splice(0).join('')) as RegExpExecArray;
    const value = reader.open(Buffer.from(name[0]));
    expect(value.equals(Buffer.alloc(20_000, i))).toBe(true);
    // The reader replaces a stand-in by its value only once.
    expect(reader.open(Buffer.from(name[0])).toString()).toBe(name[0]);
    values.add(value.buffer);
    reader.give(value);
  }
  expect(values.size).toBe(1);
});

it('behind an array everything passes', () => {
  const passed: Buffer[] = [];
  const reader = new BulkReader((bytes) => passed.push(Buffer.from(bytes)));
  const stream = Buffer.concat([
    Buffer.from('*1\r\n$20000\r\n'),
    Buffer.alloc(20_000, 1),
    Buffer.from('\r\n'),
  ]);
  expect(feed(stream, new Random(1), reader, passed).equals(stream)).toBe(true);
});
