// Tokenizes long texts in a separate process.
import { BytePairs } from './byte-pairs.js';
import { ranks, words } from './o200k.js';

/** Made with the module, before the time of a task begins. */
const pairs = new BytePairs(ranks, words);

/** The tokens of a text of any length, in a process aside. */
export function encodeLong(text: string): Int32Array {
  return pairs.encode(text);
}
