import bpeRanks from 'gpt-tokenizer/bpeRanks/o200k_base';
import library from 'gpt-tokenizer/encoding/o200k_base';

/** What each token stands for, by its number: text, or bytes that are no text by themselves. */
export const ranks = bpeRanks as readonly (string | readonly number[])[];

const NOTHING: ReadonlySet<string> = new Set();

/** The tokens of a text. Names of special tokens in the text are text as any other. */
export function encodeText(text: string): readonly number[] {
  return library.encode(text, { disallowedSpecial: NOTHING as Set<string> });
}
