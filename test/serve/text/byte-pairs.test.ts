// Tokens of long words equal the library's, in linear time.
import library from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, it } from 'vitest';
import { BytePairs } from '../../../src/serve/text/byte-pairs.js';
import { ranks, words } from '../../../src/serve/text/o200k.js';
import { o200k } from '../../../src/serve/text/vocabulary.js';
import { Random } from '../../support/engine-bench.js';

const pairs = new BytePairs(ranks, words);
const PARTS = [
  ...['a', 'b', 'e', 't', ' ', '  ', '\n', '.', 'é', '漢', '字', '😀', 'A', '1', '\u0301', '/', "'s", 'я'],
  ...['the', 'ing', '\t', '=', '-', '\u3000', '\u00a0'],
];
const ofLibrary = (text: string): number[] =>
  library.encode(text, { disallowedSpecial: new Set<string>() as Set<string> });

describe('byte pair encoding', () => {
  it('gives the tokens of the library, of short words and long ones', () => {
    const random = new Random(5);
    for (let round = 0; round < 300; round++) {
      // A word that repeats two parts is long; a word of many parts is cut.
      const kinds = random.below(3) === 0 ? [0, 1].map(() => random.below(PARTS.length)) : null;
      let text = '';
      for (let left = random.below(250); left > 0; left--)
        text += PARTS[kinds === null ? random.below(PARTS.length) : kinds[random.below(2)]];
      expect([...pairs.encode(text)], text).toEqual(ofLibrary(text));
    }
    expect([...pairs.encode('<|endoftext|>')]).toEqual(ofLibrary('<|endoftext|>'));
    expect(pairs.encode('')).toEqual(new Int32Array(0));
  });

  it.each([
    ['a', 12_500],
    [' ', 782],
    ['漢', 100_000],
    ['.', 1563],
    ['\n', 6250],
  ])(
    'takes 100,000 of %j as one word, which the square of its length would be too long for',
    (letter, count) => {
      const tokens = pairs.encode(letter.repeat(100_000));
      expect(tokens.length).toBe(count);
      expect(Array.from(tokens, (token) => o200k.textOf(token)).join('')).toBe(letter.repeat(100_000));
    },
  );

  it('has no token that is longer than the vocabulary says', async () => {
    let longest = 0;
    for (let token = 0; token < o200k.size; token++) longest = Math.max(longest, o200k.bytesOf(token).length);
    expect(o200k.longestToken).toBe(longest);
    const text = 'The quick brown fox. '.repeat(500);
    expect(await o200k.encodeAsync!(text)).toEqual(o200k.encode(text));
  });
});
