/**
 * One record of a log while it is written. It begins with u32 kind and u32 length in bytes, and ends with zeros up to a
 * multiple of four bytes. All numbers are little endian. The object is used for one record after the other.
 */
export class RecordBytes {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #words = new Int32Array(this.#bytes.buffer);
  #length = 0;

  /** Begins the next record. */
  begin(kind: number): this {
    this.#length = 0;
    return this.u32(kind).u32(0);
  }

  u32(value: number): this {
    this.#reserve(4);
    this.#view.setUint32(this.#length, value, true);
    this.#length += 4;
    return this;
  }

  f64(value: number): this {
    this.#reserve(8);
    this.#view.setFloat64(this.#length, value, true);
    this.#length += 8;
    return this;
  }

  /** The first `count` words. Only bytes may follow bytes, unless `pad` is between them. */
  words(values: Int32Array | Uint32Array, count = values.length): this {
    this.#reserve(4 * count);
    const at = this.#length >>> 2;
    if (count > 16) this.#words.set(values.subarray(0, count), at);
    else for (let i = 0; i < count; i++) this.#words[at + i] = values[i];
    this.#length += 4 * count;
    return this;
  }

  bytes(values: Uint8Array): this {
    this.#reserve(values.length);
    this.#bytes.set(values, this.#length);
    this.#length += values.length;
    return this;
  }

  /** Zeros up to a multiple of four bytes. */
  pad(): this {
    this.#reserve(3);
    while (this.#length % 4 !== 0) this.#bytes[this.#length++] = 0;
    return this;
  }

  /** Ends the record. @returns its bytes, in a new array */
  end(): Uint8Array {
    this.#view.setUint32(4, this.#length - 8, true);
    this.pad();
    return this.#bytes.slice(0, this.#length);
  }

  #reserve(more: number): void {
    const least = this.#length + more;
    if (least <= this.#bytes.length) return;
    const bytes = new Uint8Array(4 * Math.ceil(Math.max(least, 2 * this.#bytes.length) / 4));
    bytes.set(this.#bytes);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
    this.#words = new Int32Array(bytes.buffer);
  }
}
