import { Aside } from '../../base/scripts/aside.js';
import { encodeText, ranks } from './o200k.js';

/** Which text each token stands for. */
export interface Vocabulary {
  readonly name: string;
  /** Tokens have the numbers from 0 to before this one. */
  readonly size: number;
  /** The token that ends a text. */
  readonly endOfText: number;
  /** Other tokens that end an answer, such as the one that ends a message of a chat. Default: none. */
  readonly endTokens?: readonly number[];
  /**
   * The tokens of a text. Whether the name of a special token in it is that token, or text as any other, is the vocabulary's own matter.
   * @param addsSpecial whether the tokens are added with which every prompt begins. Default true
   */
  encode(text: string, addsSpecial?: boolean): Int32Array;
  /** The same, off the event loop. Absent: the tokens of long texts are made at once too, and everybody waits meanwhile. */
  encodeAsync?(text: string, addsSpecial?: boolean): Promise<Int32Array>;
  /** Bytes of the longest token: texts that are too long by that are refused before their tokens are made. Absent: none are. */
  readonly longestToken?: number;
  /** The text of a token; null if its bytes are no whole characters, or if there is no such token. */
  textOf(token: number): string | null;
  /** The bytes of a token as UTF-8. A token that ends the text has none; one that does not exist has those of U+FFFD. */
  bytesOf(token: number): Uint8Array;
}

const END_OF_TEXT = 199_999;
/** Special tokens stand behind those of texts. */
const SIZE = 200_019;
const NO_BYTES = new Uint8Array(0);
const UNKNOWN = new TextEncoder().encode('\ufffd');
const encoder = new TextEncoder();
/** Long texts become tokens here. */
const aside = new Aside();
const LONG_TEXT = { from: import.meta.url, module: 'o200k-aside', name: 'encodeLong' };
/** Milliseconds in which the longest texts that are taken become tokens on a busy machine. */
const LONG_TEXT_MS = 20_000;

/**
 * The vocabulary o200k: 199,998 pieces of texts in many languages, and special tokens. What looks like a special token in a text is text. No
 * token begins every prompt.
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
