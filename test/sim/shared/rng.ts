/**
 * The one source of chance. Everything random in a run comes from its seed through named streams.
 * So drawing more from one stream does not change the draws of another.
 */
export class Rng {
  readonly #seed: number;
  #state: number;

  constructor(seed: number, name = '') {
    let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ (seed >>> 16);
    for (let i = 0; i < name.length; i++) state = Math.imul(state ^ name.charCodeAt(i), 0x01000193);
    this.#seed = seed;
    this.#state = state | 0;
  }

  /** The stream of this name; the same whatever was drawn before. */
  stream(name: string): Rng {
    return new Rng(this.#seed, name);
  }

  /** splitmix32: a number from 0 to 2^32 - 1. */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    let z = this.#state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  }

  /** An integer from 0 to `below` - 1. */
  below(below: number): number {
    return this.next() % below;
  }

  /** An integer from `from` to `to`, both included. */
  between(from: number, to: number): number {
    return from + this.below(to - from + 1);
  }

  /** True with this probability, 0 to 1. Draws nothing when it is 0. */
  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability * 2 ** 32;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)];
  }

  /** In place. */
  shuffle<T>(list: T[]): T[] {
    for (let i = list.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [list[i], list[j]] = [list[j], list[i]];
    }
    return list;
  }
}
