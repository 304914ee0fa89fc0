/** A growing list of 32-bit integers. It keeps its memory when it is cleared. */
export class IntList {
  #values = new Int32Array(256);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The values; valid until the list grows. */
  get values(): Int32Array {
    return this.#values;
  }

  clear(): void {
    this.#length = 0;
  }

  push(value: number): void {
    this.reserve(1);
    this.#values[this.#length++] = value;
  }

  /** Makes room for `count` more numbers. */
  reserve(count: number): void {
    if (this.#length + count <= this.#values.length) return;
    const grown = new Int32Array(2 * (this.#length + count));
    grown.set(this.#values);
    this.#values = grown;
  }

  /** Adds `count` numbers without setting them. @returns the index of the first new number */
  extend(count: number): number {
    this.reserve(count);
    this.#length += count;
    return this.#length - count;
  }

  append(list: IntList): void {
    const at = this.extend(list.length);
    this.#values.set(list.#values.subarray(0, list.length), at);
  }
}
