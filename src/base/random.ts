/** Spreads the bits of a 32-bit word. It is a bijection, the finaliser of MurmurHash3. */
function scramble(word: number): number {
  let h = word;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/**
 * Mixes two 32-bit words into one unsigned 32-bit word. For a fixed `b` the result is a bijection
 * of `a`. The function is pure: its result is the same on every machine, and does not depend on the
 * order of calls.
 */
export function mix(a: number, b: number): number {
  return scramble(scramble(a + 0x9e3779b9) + Math.imul(b, 0x9e3779b1)) >>> 0;
}

/** `mix(a, b)` scaled to a number in [0, 1). */
export function chance(a: number, b: number): number {
  return mix(a, b) / 2 ** 32;
}

/** The 32-bit key of a text: FNV-1a over its UTF-16 code units. */
export function textKey(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

/** A seeded stream of random numbers. Equal seeds give equal streams. */
export class Random {
  readonly #seed: number;
  #count = 0;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** A number in [0, 1). */
  next(): number {
    return chance(this.#seed, this.#count++);
  }

  /** An integer in [0, n). */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  /** An exponentially distributed number with the given mean, at least 0. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }
}
