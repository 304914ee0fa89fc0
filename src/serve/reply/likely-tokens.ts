import type { PromptLogprobs, TokenLogprobs } from '../../engine/executor/sampling-params.js';
import { Detokenizer } from '../text/detokenizer.js';
import type { Vocabulary } from '../text/vocabulary.js';

/** A token by its text and bytes, with its log-probability. */
export interface TextLogprob {
  /** Bytes that are not complete characters appear as U+FFFD. */
  readonly text: string;
  readonly bytes: readonly number[];
  /** Null if nothing comes before the token. */
  readonly logprob: number | null;
}

/** A token of a choice with its log-probability. */
export interface LikelyToken extends TextLogprob {
  /** The number of characters of the text before the token. */
  readonly offset: number;
  /** The most likely tokens, the likeliest first; at most the requested number. */
  readonly top: readonly TextLogprob[];
}

/** The placeholder for a log-probability that the executor did not report, as in vLLM. */
const UNKNOWN = -9999;

/** The log-probabilities of a prompt's tokens, as the executor reports them. */
export class PromptScores implements PromptLogprobs {
  readonly count: number;
  readonly #at = new Map<number, TokenLogprobs>();

  /** @param count the number of most likely tokens that are wanted too */
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

/** The log-probabilities of a choice's tokens, until they are taken. */
export class LikelyTokens {
  readonly #vocabulary: Vocabulary;
  readonly #count: number;
  #offset: number;
  #tokens: LikelyToken[] = [];

  /**
   * @param count the requested number of most likely tokens @param offset characters before the
   * first token
   */
  constructor(vocabulary: Vocabulary, count: number, offset: number) {
    this.#vocabulary = vocabulary;
    this.#count = count;
    this.#offset = offset;
  }

  /**
   * @param extra the executor's extra for the token @param length characters that the token added
   * to the text
   */
  add(token: number, extra: unknown, length: number): void {
    const { logprob = UNKNOWN, top = [] } = (extra ?? {}) as Partial<TokenLogprobs>;
    this.#tokens.push({
      ...this.#textLogprob(token, logprob),
      offset: this.#offset,
      top: top.slice(0, this.#count).map((each) => this.#textLogprob(each.token, each.logprob)),
    });
    this.#offset += length;
  }

  /** Adds the tokens of a prompt, which come before all others. */
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

  /** The tokens since the last call. */
  drain(): readonly LikelyToken[] {
    const tokens = this.#tokens;
    this.#tokens = [];
    return tokens;
  }

  #textLogprob(token: number, logprob: number): TextLogprob {
    const bytes = this.#vocabulary.bytesOf(token);
    const text = this.#vocabulary.textOf(token) ?? Buffer.from(bytes).toString('utf8');
    // JSON cannot express minus infinity, the logarithm of the probability 0.
    return { text, bytes: [...bytes], logprob: Math.max(UNKNOWN, logprob) };
  }
}
