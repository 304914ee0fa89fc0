// The toy model that the executor and the unpaged reference share. One number stands for the keys and values of a position.

/** Few enough that stop tokens and prefix hits really happen. */
export const VOCAB = 61;

/** The `params` that a client may give. */
export interface SamplingParams {
  readonly seed: number;
}

export interface Sample {
  readonly token: number;
  /** A number in place of a log-probability, which another text or another seed would not give. */
  readonly extra: number;
}

/** Mixes two 32-bit numbers; not symmetric, so that the order of positions counts. */
export function mix(a: number, b: number): number {
  let x = Math.imul(a ^ Math.imul(b + 0x7f4a7c15, 0x9e3779b1), 0x85ebca6b);
  x ^= x >>> 15;
  x = Math.imul(x, 0xc2b2ae35);
  return (x ^ (x >>> 13)) | 0;
}

function mixText(start: number, text: string): number {
  let x = mix(start, text.length);
  for (let i = 0; i < text.length; i++) x = mix(x, text.charCodeAt(i));
  return x;
}

/**
 * The number that the first position attends to: everything that decides the KV beside the tokens.
 */
export function rootOf(cacheSalt: string | undefined, adapter: string | undefined): number {
  return mixText(mixText(17, cacheSalt ?? ''), adapter ?? '');
}

/** The number of a position, made of its token and of all that lies before it. */
export function kvOf(attended: number, token: number): number {
  return mix(mix(attended, 3), token);
}

/** The number that a position attends to, with one more position read. */
export function attend(attended: number, kv: number): number {
  return mix(attended, kv);
}

export function seedOf(params: unknown): number {
  if (typeof params !== 'object' || params === null || !('seed' in params)) return 0;
  return typeof params.seed === 'number' ? params.seed : 0;
}

export function sampleAt(attended: number, seed: number): Sample {
  const x = mix(mix(attended, 5), seed);
  return { token: (x >>> 4) % VOCAB, extra: mix(x, 7) };
}

/** The same model without blocks: a text that only grows, or loses its end. */
export class UnpagedModel {
  readonly #root: number;
  readonly #kv: number[] = [];

  constructor(cacheSalt: string | undefined, adapter: string | undefined) {
    this.#root = rootOf(cacheSalt, adapter);
  }

  get length(): number {
    return this.#kv.length;
  }

  push(token: number): void {
    this.#kv.push(kvOf(this.#attended(), token));
  }

  dropLast(): void {
    this.#kv.pop();
  }

  sample(seed: number): Sample {
    return sampleAt(this.#attended(), seed);
  }

  #attended(): number {
    return this.#kv.reduce(attend, this.#root);
  }
}
