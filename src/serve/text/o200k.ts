import bpeRanks from 'gpt-tokenizer/bpeRanks/o200k_base';
import library from 'gpt-tokenizer/encoding/o200k_base';
import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants';

/** The text of each token by its id, or its bytes if they are not text by themselves. */
export const ranks = bpeRanks as readonly (string | readonly number[])[];

/** The pattern that splits a text into words, which are tokenized separately. */
export const words: RegExp = O200K_TOKEN_SPLIT_REGEX;

const NOTHING: ReadonlySet<string> = new Set();

/**
 * Tokenizes a short text: time and memory grow with the square of its longest word. Names of
 * special tokens are treated as plain text.
 */
export function encodeText(text: string): readonly number[] {
  return library.encode(text, { disallowedSpecial: NOTHING as Set<string> });
}
