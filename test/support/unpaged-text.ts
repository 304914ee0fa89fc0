import { mix } from '../../src/base/random.js';

/** The inputs of a text beside its prompt. */
export interface Model {
  seed?: number;
  eosTokenId?: number;
}

/**
 * The tokens that follow a prompt, computed without pages, blocks, steps or batches. For each
 * token, all earlier occurrences of the text's end are tried, and the longest wins.
 */
export function unpagedText(
  prompt: Int32Array,
  count: number,
  { seed = 0, eosTokenId }: Model = {},
): number[] {
  const text = [...prompt];
  while (text.length < prompt.length + count) {
    let best = 0;
    let from = -1;
    for (let end = 1; end < text.length; end++) {
      let length = 0;
      while (length < end && text[end - 1 - length] === text[text.length - 1 - length]) length++;
      if (length > best) {
        best = length;
        from = end;
      }
    }
    const last = text[text.length - 1];
    if (from < 0) text.push(prompt[mix(mix(seed, text.length), last) % prompt.length]);
    else if (from >= prompt.length && eosTokenId !== undefined) text.push(eosTokenId);
    else text.push(text[from]);
  }
  return text.slice(prompt.length);
}

/** A prompt that has something to go on with: words of a small language, drawn by the seed. */
export function wordy(length: number, seed: number): Int32Array {
  return Int32Array.from({ length }, (_, i) => 10 + (mix(seed, i - (i % 3)) % 7) * 3 + (i % 3));
}
