// The library of the encoding o200k.
import bpeRanks from 'gpt-tokenizer/bpeRanks/o200k_base';
import library from 'gpt-tokenizer/encoding/o200k_base';
import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants';

/** What each token stands for, by its number: text, or bytes that are no text by themselves. */
export const ranks = bpeRanks as readonly (string | readonly number[])[];

/** The pattern by which a text is cut into words, of which each has its tokens. */
export const words: RegExp = O200K_TOKEN_SPLIT_REGEX;

const NOTHING: ReadonlySet<string> = new Set();

/** The tokens of a short text: time and memory grow with the square of its longest word. Names of special tokens in the text are text as any other. */
export function encodeText(text: string): readonly number[] {
  return library.encode(text, { disallowedSpecial: NOTHING as Set<string> });
}
