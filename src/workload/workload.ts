import { mix } from '../base/random.js';

/** Tokens of a prompt that one hash id of a trace stands for. */
export const HASH_BLOCK_TOKENS = 512;

/** Token ids of generated prompts lie in [0, VOCABULARY); a power of two, about the size of Llama 3's vocabulary. */
export const VOCABULARY = 2 ** 17;

/** The columns of a workload; `WorkloadBuilder` makes them. */
export interface WorkloadColumns {
  /** Milliseconds since the first arrival, ascending, the first one 0. */
  readonly arrivalMs: Float64Array;
  /** Prompt lengths in tokens, >= 1. */
  readonly inputTokens: Int32Array;
  /** Tokens to generate, >= 1. */
  readonly outputTokens: Int32Array;
  /** Where the hash ids of a request begin in `hashIds`; null = the workload has none. */
  readonly hashStarts: Uint32Array | null;
  readonly hashIds: Int32Array;
}

/**
 * The requests of a trace, in order of arrival. A request costs some 20 bytes and 4 per hash id here; its prompt is
 * made only when it is asked for.
 *
 * A prompt's content is all that matters to a prefix cache, so it is made up: with hash ids, tokens
 * [512 i, 512 i + 512) follow from the i-th id alone (equal ids, equal content), a partial last block from the first
 * part of its id's content. Without hash ids they follow from the request's index and the seed, and nothing is shared.
 */
export class Workload {
  readonly length: number;
  readonly arrivalMs: Float64Array;
  readonly inputTokens: Int32Array;
  readonly outputTokens: Int32Array;
  /** The most tokens, prompt and output, that any request comes to; 0 if there are no requests. */
  readonly maxTotalTokens: number;
  readonly #hashStarts: Uint32Array | null;
  readonly #hashIds: Int32Array;
  readonly #seed: number;

  constructor(columns: WorkloadColumns, seed: number) {
    this.length = columns.arrivalMs.length;
    this.arrivalMs = columns.arrivalMs;
    this.inputTokens = columns.inputTokens;
    this.outputTokens = columns.outputTokens;
    this.#hashStarts = columns.hashStarts;
    this.#hashIds = columns.hashIds;
    this.#seed = seed;
    let most = 0;
    for (let i = 0; i < this.length; i++) most = Math.max(most, this.inputTokens[i] + this.outputTokens[i]);
    this.maxTotalTokens = most;
  }

  /** Whether it is known which prompts share content; without that no prefix of one can be found in another. */
  get hasContents(): boolean {
    return this.#hashStarts !== null;
  }

  /** The prompt of request `index`: `inputTokens[index]` token ids in [0, VOCABULARY), newly allocated. */
  prompt(index: number): Int32Array {
    const prompt = new Int32Array(this.inputTokens[index]);
    if (this.#hashStarts === null) {
      fill(prompt, mix(this.#seed, index));
      return prompt;
    }
    let id = this.#hashStarts[index];
    for (let at = 0; at < prompt.length; at += HASH_BLOCK_TOKENS) {
      fill(prompt.subarray(at, at + HASH_BLOCK_TOKENS), this.#hashIds[id++]);
    }
    return prompt;
  }
}

/** Fills `tokens` with the content that belongs to `key`. */
function fill(tokens: Int32Array, key: number): void {
  for (let j = 0; j < tokens.length; j++) tokens[j] = mix(key, j) & (VOCABULARY - 1);
}
