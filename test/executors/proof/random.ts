/** A small seeded generator (mulberry32): everything of a configuration is drawn from one, so that its seed repeats it. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.imul(seed + 1, 0x9e3779b1) | 0;
  }

  /** 0 to 1, without 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let x = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer, both ends included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.int(0, choices.length - 1)] ?? choices[0];
  }
}
