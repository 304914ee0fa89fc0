import type { Vocabulary } from '../text/vocabulary.js';

/** The interface of a model's own tokenizer, as in `blockstep/llama-cpp`. */
export interface ModelTokenizer {
  /** Token ids are less than this number. */
  readonly numTokens: number;
  /** The token with which every prompt begins; negative if there is none. */
  readonly beginToken: number;
  /**
   * The tokens that end an answer; the token that ends a text comes first. A model without such
   * tokens never ends an answer by itself.
   */
  readonly endTokens: readonly number[];
  /**
   * Tokenizes a text.
   * @param addsSpecial whether the begin token is added
   * @param knowsSpecial whether the names of special tokens become those tokens
   */
  tokenize(text: string, addsSpecial: boolean, knowsSpecial: boolean): Int32Array;
  /** The same, off the event loop. Absent: texts are always tokenized on the event loop. */
  tokenizeAsync?(text: string, addsSpecial: boolean, knowsSpecial: boolean): Promise<Int32Array>;
  /**
   * The length of the longest token in bytes, including the names of special tokens. Absent if
   * unknown.
   */
  readonly longestToken?: number;
  /** The bytes of a token. @param showsSpecial whether a special token has its name, or nothing */
  piece(token: number, showsSpecial: boolean): Uint8Array;
}

const NO_BYTES = new Uint8Array(0);
const UNKNOWN = new TextEncoder().encode('\ufffd');

/**
 * A model's own tokenizer as the vocabulary of its server. Names of special tokens in a text become
 * those tokens, as in other servers, because prompts that a client formats itself need them. A
 * prompt begins with exactly one begin token, even if its text or a chat template already has it.
 */
export class ModelVocabulary implements Vocabulary {
  readonly name: string;
  readonly size: number;
  readonly endOfText: number;
  readonly endTokens: readonly number[];
  declare readonly longestToken?: number;
  declare readonly encodeAsync?: NonNullable<Vocabulary['encodeAsync']>;
  readonly #tokenizer: ModelTokenizer;
  /** The text of the begin token; empty if there is none. */
  readonly #beginText: string;
  /** By token: its text, or null. Filled on demand. */
  readonly #texts: (string | null | undefined)[] = [];
  readonly #strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

  /** @param name of the vocabulary, for people */
  constructor(name: string, tokenizer: ModelTokenizer) {
    this.name = name;
    this.size = tokenizer.numTokens;
    // Without end tokens, a token id that does not exist represents the end, which then never
    // comes.
    [this.endOfText = tokenizer.numTokens, ...this.endTokens] = tokenizer.endTokens;
    this.#tokenizer = tokenizer;
    if (tokenizer.longestToken !== undefined) this.longestToken = tokenizer.longestToken;
    if (tokenizer.tokenizeAsync !== undefined)
      this.encodeAsync = (text, addsSpecial = true) =>
        tokenizer.tokenizeAsync!(text, this.#addsBegin(text, addsSpecial), true);
    this.#beginText = tokenizer.beginToken < 0 ? '' : this.specialText(tokenizer.beginToken);
  }

  encode(text: string, addsSpecial = true): Int32Array {
    return this.#tokenizer.tokenize(text, this.#addsBegin(text, addsSpecial), true);
  }

  textOf(token: number): string | null {
    if (!this.#has(token)) return null;
    let text = this.#texts[token];
    if (text === undefined) {
      text = this.#read(token);
      this.#texts[token] = text;
    }
    return text;
  }

  bytesOf(token: number): Uint8Array {
    if (!this.#has(token)) return UNKNOWN;
    return this.#isEnd(token) ? NO_BYTES : this.#tokenizer.piece(token, false);
  }

  /** The name of a special token, as templates write it. */
  specialText(token: number): string {
    return this.#has(token) ? Buffer.from(this.#tokenizer.piece(token, true)).toString('utf8') : '';
  }

  #addsBegin(text: string, addsSpecial: boolean): boolean {
    const hasBegun = this.#beginText !== '' && text.startsWith(this.#beginText);
    return addsSpecial && !hasBegun;
  }

  #read(token: number): string | null {
    try {
      return this.#strict.decode(this.bytesOf(token));
    } catch {
      return null;
    }
  }

  #isEnd(token: number): boolean {
    return token === this.endOfText || this.endTokens.includes(token);
  }

  #has(token: number): boolean {
    return Number.isInteger(token) && token >= 0 && token < this.size;
  }
}
