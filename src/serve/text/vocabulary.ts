import { Aside } from '../../base/scripts/aside.js';
import { encodeText, ranks } from './o200k.js';

/** Maps tokens to text and back. */
export interface Vocabulary {
  readonly name: string;
  /** Token ids are less than this number. */
  readonly size: number;
  /** The token that ends a text. */
  readonly endOfText: number;
  /** Other tokens that end an answer, such as the token that ends a chat message. Default: none. */
  readonly endTokens?: readonly number[];
  /**
   * Tokenizes a text. The vocabulary decides whether the name of a special token becomes that token
   * or plain text.
   * @param addsSpecial whether the special tokens are added with which every prompt begins. Default
   * true
   */
  encode(text: string, addsSpecial?: boolean): Int32Array;
  /**
   * The same, off the event loop. Absent: long texts too are tokenized on the event loop, which
   * holds up all clients.
   */
  encodeAsync?(text: string, addsSpecial?: boolean): Promise<Int32Array>;
  /**
   * The length of the longest token, in bytes. It lets the server refuse a text that is too long
   * before it is tokenized. Absent: no text is refused for its length in advance.
   */
  readonly longestToken?: number;
  /**
   * The text of a token; null if its bytes are not complete characters, or if there is no such
   * token.
   */
  textOf(token: number): string | null;
  /**
   * The UTF-8 bytes of a token. A token that ends the text has none; a token that does not exist
   * has the bytes of U+FFFD.
   */
  bytesOf(token: number): Uint8Array;
}

const END_OF_TEXT = 199_999;
/** The ids of special tokens come after those of text tokens. */
const SIZE = 200_019;
const NO_BYTES = new Uint8Array(0);
const UNKNOWN = new TextEncoder().encode('\ufffd');
const encoder = new TextEncoder();
/** Tokenizes long texts in a separate process. */
const aside = new Aside();
const LONG_TEXT = { from: import.meta.url, module: 'o200k-aside', name: 'encodeLong' };
/** Milliseconds in which the longest accepted texts can be tokenized on a busy machine. */
const LONG_TEXT_MS = 20_000;

/**
 * The vocabulary o200k: 199,998 pieces of texts in many languages, and special tokens. Names of
 * special tokens in a text are plain text. No special token begins a prompt.
 */
export const o200k: Vocabulary = {
  name: 'o200k_base',
  size: SIZE,
  endOfText: END_OF_TEXT,
  longestToken: 128,
  encode: (text) => Int32Array.from(encodeText(text)),
  encodeAsync: (text) => aside.run(LONG_TEXT, text, { timeMs: LONG_TEXT_MS }),
  textOf(token) {
    const piece = ranks[token];
    return typeof piece === 'string' ? piece : null;
  },
  bytesOf(token) {
    const piece = ranks[token];
    if (typeof piece === 'string') return encoder.encode(piece);
    if (piece !== undefined) return Uint8Array.from(piece);
    return token >= ranks.length && token < SIZE ? NO_BYTES : UNKNOWN;
  },
};
