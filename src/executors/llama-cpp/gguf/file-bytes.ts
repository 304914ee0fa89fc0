import { readSync } from 'node:fs';

const CHUNK = 2 ** 20;

/** The longest text that is accepted. A chat template has a hundredth of this length. */
const LONGEST_TEXT = 2 ** 26;

/** Thrown if a file ends early, or announces a length that no file has. */
export class CutOff extends Error {}

/**
 * Reads a file from its beginning, value by value, little-endian. Announced lengths are checked
 * against the size of the file.
 */
export class FileBytes {
  readonly #file: number;
  readonly #size: number;
  #chunk = Buffer.alloc(0);
  /** File position of the buffered chunk, and the next byte in the chunk. */
  #start = 0;
  #at = 0;

  /** @param file an open file @param size bytes of the file */
  constructor(file: number, size: number) {
    this.#file = file;
    this.#size = size;
  }

  /** The file position that is read next. */
  get position(): number {
    return this.#start + this.#at;
  }

  /** Bytes from this position to the end. */
  get left(): number {
    return this.#size - this.position;
  }

  /** Skips bytes. @throws CutOff */
  skip(bytes: number): void {
    if (bytes > this.left) throw this.#cutOff(bytes);
    if (this.#at + bytes <= this.#chunk.length) {
      this.#at += bytes;
      return;
    }
    this.#start = this.position + bytes;
    this.#at = 0;
    this.#chunk = Buffer.alloc(0);
  }

  bytes(count: number): Buffer {
    const at = this.#advance(count);
    return this.#chunk.subarray(at, at + count);
  }

  u8(): number {
    return this.#chunk[this.#advance(1)];
  }

  i8(): number {
    const at = this.#advance(1);
    return this.#chunk.readInt8(at);
  }

  u16(): number {
    const at = this.#advance(2);
    return this.#chunk.readUInt16LE(at);
  }

  i16(): number {
    const at = this.#advance(2);
    return this.#chunk.readInt16LE(at);
  }

  u32(): number {
    const at = this.#advance(4);
    return this.#chunk.readUInt32LE(at);
  }

  i32(): number {
    const at = this.#advance(4);
    return this.#chunk.readInt32LE(at);
  }

  f32(): number {
    const at = this.#advance(4);
    return this.#chunk.readFloatLE(at);
  }

  f64(): number {
    const at = this.#advance(8);
    return this.#chunk.readDoubleLE(at);
  }

  /** 64 bits as a number. It is inexact from 2^53 on, which no size or count of a file reaches. */
  u64(): number {
    const at = this.#advance(8);
    return Number(this.#chunk.readBigUInt64LE(at));
  }

  i64(): number {
    const at = this.#advance(8);
    return Number(this.#chunk.readBigInt64LE(at));
  }

  /**
   * A length in 64 bits, then UTF-8.
   * @param encoding `latin1` gives different texts for different bytes, valid or not
   */
  text(encoding: 'utf8' | 'latin1' = 'utf8'): string {
    const length = this.u64();
    if (length > LONGEST_TEXT) throw this.#cutOff(length);
    return this.bytes(length).toString(encoding);
  }

  /** Buffers `count` bytes. @returns their offset in the chunk */
  #advance(count: number): number {
    if (this.#at + count > this.#chunk.length) this.#read(count);
    const at = this.#at;
    this.#at += count;
    return at;
  }

  #read(count: number): void {
    if (count > this.left) throw this.#cutOff(count);
    this.#start = this.position;
    this.#at = 0;
    const chunk = Buffer.alloc(Math.min(Math.max(count, CHUNK), this.left));
    let length = 0;
    while (length < chunk.length) {
      const read = readSync(this.#file, chunk, length, chunk.length - length, this.#start + length);
      if (read === 0) throw this.#cutOff(count);
      length += read;
    }
    this.#chunk = chunk;
  }

  #cutOff(bytes: number): CutOff {
    return new CutOff(`${bytes} bytes are to follow at byte ${this.position}, and there are ${this.left}`);
  }
}
