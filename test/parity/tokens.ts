// Prompts, and the tokens of the fake model.
import type { AddEvent, Segment, Trace } from './trace.js';

/** Token j of the endless text of a seed. */
export function seedToken(seed: number, j: number): number {
  return 100 + ((seed * 7919 + j * 104729 + 12345) % 50000);
}

/** Where the fake model of a request ends: output indexes of its EOS and stop token, -1 for never. */
export interface Ending {
  eosAt: number;
  stopAt: number;
}

/** The tokens with which the fake model ends a request. */
export type EndTokens = Pick<Trace, 'eos_id' | 'stop_id'>;

/** Output token k of request idx. */
export function outputToken(end: EndTokens, idx: number, k: number, { eosAt, stopAt }: Ending): number {
  if (k === eosAt) return end.eos_id;
  if (k === stopAt) return end.stop_id;
  return 60000 + ((idx * 613 + k * 31) % 30000);
}

/** Spells out the prompts of a trace, in the order of its add events: a prompt may quote what was added before. */
export class Prompts {
  readonly #end: EndTokens;
  readonly #endings = new Map<number, Ending>();

  constructor(end: EndTokens) {
    this.#end = end;
  }

  /** The tokens of a prompt. Throws if it quotes a request that was not spelled before. */
  spell({
    idx,
    prompt,
    eos_at,
    stop_at,
  }: Pick<AddEvent, 'idx' | 'prompt' | 'eos_at' | 'stop_at'>): Int32Array {
    const tokens = Int32Array.from(prompt.flatMap((segment) => this.#segment(segment)));
    this.#endings.set(idx, { eosAt: eos_at, stopAt: stop_at });
    return tokens;
  }

  #segment(segment: Segment): number[] {
    switch (segment[0]) {
      case 's': {
        const [, seed, start, length] = segment;
        return Array.from({ length }, (_, j) => seedToken(seed, start + j));
      }
      case 'o': {
        const [, idx, length] = segment;
        const ending = this.#endings.get(idx);
        if (!ending) throw new Error(`a prompt quotes request ${idx}, which was not added before`);
        return Array.from({ length }, (_, k) => outputToken(this.#end, idx, k, ending));
      }
      case 'x':
        return segment[1];
    }
  }
}
