import { mix } from '../base/random.js';

/** Number of prompt tokens behind one hash id of a trace. */
export const HASH_BLOCK_TOKENS = 512;

/**
 * Token ids of generated prompts lie in [0, VOCABULARY); a power of two, about the size of Llama
 * 3's vocabulary.
 */
export const VOCABULARY = 2 ** 17;

/** The columns of a workload; `WorkloadBuilder` makes them. */
export interface WorkloadColumns {
  /** Milliseconds since the first arrival, ascending, the first one 0. */
  readonly arrivalMs: Float64Array;
  /** Prompt lengths in tokens, >= 1. */
  readonly inputTokens: Int32Array;
  /** Tokens to generate, >= 1. */
  readonly outputTokens: Int32Array;
  /** Index in `hashIds` of each request's first hash id; null if the workload has no hash ids. */
  readonly hashStarts: Uint32Array | null;
  readonly hashIds: Int32Array;
}

/**
 * The requests of a trace, in order of arrival. A request takes some 20 bytes, and 4 bytes per hash
 * id. Its prompt is made only on request, by `prompt`.
 *
 * Prompts are synthetic, because a prefix cache only compares tokens. With hash ids, the i-th id of
 * a prompt alone decides its tokens [512 i, 512 i + 512). So equal ids give equal tokens. A partial
 * last block has the first part of its id's tokens. Without hash ids, a prompt follows from the
 * request's index and the seed, and no two prompts share a prefix.
 */
export class Workload {
  readonly length: number;
  readonly arrivalMs: Float64Array;
  readonly inputTokens: Int32Array;
  readonly outputTokens: Int32Array;
  /** The most tokens, prompt and output together, of any request; 0 if there are no requests. */
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

  /**
   * Whether the trace says which prompts share content. If not, no prompt can have a prefix in
   * common with another.
   */
  get hasContents(): boolean {
    return this.#hashStarts !== null;
  }

  /** The columns themselves, to be shared with other threads. */
  get columns(): WorkloadColumns {
    const { arrivalMs, inputTokens, outputTokens } = this;
    return { arrivalMs, inputTokens, outputTokens, hashStarts: this.#hashStarts, hashIds: this.#hashIds };
  }

  /**
   * An outline is a cheap stand-in for a prompt. The prefixes of two outlines are equal exactly
   * where those of their `prompt`s are. The first token of each hash id's block is that id. Without
   * hash ids, the first token of the prompt identifies the request. All other tokens are 0.
   * @param into the memory for the outline: at least `inputTokens[index]` zeros, which
   * `eraseOutline` restores
   * @returns a view of `into`
   */
  outline(index: number, into: Int32Array): Int32Array {
    const prompt = into.subarray(0, this.inputTokens[index]);
    if (this.#hashStarts === null) {
      prompt[0] = index;
      return prompt;
    }
    let id = this.#hashStarts[index];
    for (let at = 0; at < prompt.length; at += HASH_BLOCK_TOKENS) prompt[at] = this.#hashIds[id++];
    return prompt;
  }

  /** Resets an outline to zeros. */
  eraseOutline(prompt: Int32Array): void {
    for (let at = 0; at < prompt.length; at += HASH_BLOCK_TOKENS) prompt[at] = 0;
  }

  /**
   * The hash ids of request `index`, one for each 512 tokens of its prompt; empty without hash ids.
   */
  hashIds(index: number): Int32Array {
    if (this.#hashStarts === null) return this.#hashIds.subarray(0, 0);
    const start = this.#hashStarts[index];
    return this.#hashIds.subarray(start, start + Math.ceil(this.inputTokens[index] / HASH_BLOCK_TOKENS));
  }

  /**
   * The prompt of request `index`: `inputTokens[index]` token ids in [0, VOCABULARY), newly
   * allocated.
   */
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

/** Fills `tokens` with values that follow from `key`. */
function fill(tokens: Int32Array, key: number): void {
  for (let j = 0; j < tokens.length; j++) tokens[j] = mix(key, j) & (VOCABULARY - 1);
}
