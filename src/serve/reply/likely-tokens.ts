import type { TokenLogprobs } from '../../engine/executor/sampling-params.js';
import type { Vocabulary } from '../text/vocabulary.js';

/** A token by its text and bytes, and the logarithm of its probability. */
export interface TextLogprob {
  /** Bytes that are no whole characters stand as U+FFFD. */
  readonly text: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
}

/** How likely a token of a choice was. */
export interface LikelyToken extends TextLogprob {
  /** Characters of the text in front of the token. */
  readonly offset: number;
  /** The most likely tokens, the likeliest first: at most as many as were asked for. */
  readonly top: readonly TextLogprob[];
}

/** What stands for the logarithm of a probability that the executor did not say, as in vLLM. */
const UNKNOWN = -9999;

/** How likely the tokens of a choice were, until somebody takes it. */
export class LikelyTokens {
  readonly #vocabulary: Vocabulary;
  readonly #count: number;
  #offset: number;
  #tokens: LikelyToken[] = [];

  /** @param count most likely tokens that were asked for @param offset characters in front of the first token */
  constructor(vocabulary: Vocabulary, count: number, offset: number) {
    this.#vocabulary = vocabulary;
    this.#count = count;
    this.#offset = offset;
  }

  /** @param extra what the executor gave with the token @param length characters that it brought to the text */
  add(token: number, extra: unknown, length: number): void {
    const { logprob = UNKNOWN, top = [] } = (extra ?? {}) as Partial<TokenLogprobs>;
    this.#tokens.push({
      ...this.#textLogprob(token, logprob),
      offset: this.#offset,
      top: top.slice(0, this.#count).map((each) => this.#textLogprob(each.token, each.logprob)),
    });
    this.#offset += length;
  }

  /** The tokens that came since the last call. */
  take(): readonly LikelyToken[] {
    const tokens = this.#tokens;
    this.#tokens = [];
    return tokens;
  }

  #textLogprob(token: number, logprob: number): TextLogprob {
    const bytes = this.#vocabulary.bytesOf(token);
    const text = this.#vocabulary.textOf(token) ?? Buffer.from(bytes).toString('utf8');
    // JSON has no infinity, which the probability 0 has.
    return { text, bytes: [...bytes], logprob: Math.max(UNKNOWN, logprob) };
  }
}
