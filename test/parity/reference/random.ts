/** A small seeded generator (mulberry32): the same seed gives the same trace on every machine. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Another generator, which begins where this one stands, and does not move it. */
  aside(): Random {
    return new Random(this.#state ^ 0x9e3779b9);
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let x = this.#state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(p: number): boolean {
    return this.next() < p;
  }

  /** An integer from min to max, both included. */
  integer(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  pick<const T extends readonly unknown[]>(values: T): T[number] {
    return values[this.integer(0, values.length - 1)];
  }
}
