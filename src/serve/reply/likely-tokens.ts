import type { PromptLogprobs, TokenLogprobs } from '../../engine/executor/sampling-params.js';
import { Detokenizer } from '../text/detokenizer.js';
import type { Vocabulary } from '../text/vocabulary.js';

/** A token by its text and bytes, and the logarithm of its probability. */
export interface TextLogprob {
  /** Bytes that are no whole characters stand as U+FFFD. */
  readonly text: string;
  readonly bytes: readonly number[];
  /** Null: nothing stands in front of it. */
  readonly logprob: number | null;
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

/** How likely the tokens of a prompt are, as an executor tells it. */
export class PromptScores implements PromptLogprobs {
  readonly count: number;
  readonly #at = new Map<number, TokenLogprobs>();

  /** @param count most likely tokens that are wanted too */
  constructor(count: number) {
    this.count = count;
  }

  add(position: number, logprobs: TokenLogprobs): void {
    this.#at.set(position, logprobs);
  }

  at(position: number): TokenLogprobs | undefined {
    return this.#at.get(position);
  }
}

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

  /** The tokens of a prompt, which stand in front of all others. */
  addPrompt(tokens: Int32Array, scores: PromptScores): void {
    const detokenizer = new Detokenizer(this.#vocabulary);
    const behind = this.#offset;
    this.#offset = 0;
    for (const [i, token] of tokens.entries()) {
      this.add(token, scores.at(i), detokenizer.push(token).length);
      if (i === 0) this.#tokens[0] = { ...this.#tokens[0], logprob: null };
    }
    this.#offset = behind;
  }

  /** The tokens that came since the last call. */
  drain(): readonly LikelyToken[] {
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
