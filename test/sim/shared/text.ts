/** A hash of two numbers, 0 to 2^31 - 1. */
export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 15), 0x27d4eb2f);
  return (h ^ (h >>> 13)) & 0x7fffffff;
}

/** Ends texts now and then, for requests that take it for the end. */
export const END_TOKEN = 7;

/** The token that follows what has this hash. */
export function tokenOf(hash: number): number {
  return hash % 11 === 0 ? END_TOKEN : 1000 + (hash % 100_000);
}

/** The key that keeps prefixes apart, of a salt and an adapter. */
export function keyOf(salt: number, adapter: string): number {
  let key = salt;
  for (let i = 0; i < adapter.length; i++) key = mix(key + 1, adapter.charCodeAt(i));
  return key;
}

/**
 * All output of a model after one prompt, and the content of its KV cache. A pure function of the
 * prompt and of the fields that keep prefixes apart. So a preempted request generates the same
 * again, and equal prompts share their answers' blocks.
 */
export class Text {
  readonly #prompt: Int32Array;
  readonly #root: number;
  readonly #prints: number[] = [];
  readonly #salt: number;

  constructor(prompt: Int32Array, salt: number) {
    this.#prompt = prompt;
    this.#salt = salt;
    let root = salt;
    for (const token of prompt) root = mix(root, token);
    this.#root = root;
  }

  /** The text that goes on with other tokens behind its first ones. */
  continued(kept: number, chunk: Int32Array): Text {
    const said = Array.from({ length: kept }, (_, position) => this.token(position));
    return new Text(Int32Array.from([...said, ...chunk]), this.#salt);
  }

  token(position: number): number {
    if (position < this.#prompt.length) return this.#prompt[position];
    return tokenOf(mix(this.#root, position));
  }

  /**
   * The content of the KV cache at a position: of all tokens up to there, this one included. Never
   * negative.
   */
  print(position: number): number {
    const prints = this.#prints;
    for (let p = prints.length; p <= position; p++) {
      prints.push(mix(p === 0 ? this.#salt : prints[p - 1], this.token(p)));
    }
    return prints[position];
  }
}
