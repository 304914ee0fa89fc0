// The vocabulary, and text that comes token by token.
import { describe, expect, it } from 'vitest';
import { Detokenizer } from '../../../src/serve/text/detokenizer.js';
import { o200k } from '../../../src/serve/text/vocabulary.js';
import { Random } from '../../support/engine-bench.js';

const TEXTS = [
  'The quick brown fox jumps over the lazy dog.',
  'Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.',
  '天地玄黄，宇宙洪荒。日月盈昃，辰宿列張。',
  'العربية وعبرית यूनिकोड ไทย ខ្មែរ',
  '👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 🫠𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \u{10fffd}',
  '\ufeffa byte order mark, \u0000 a zero, \ttabs\r\n\r\n   and spaces   ',
  'function f(x) { return x === 0 ? [] : [...f(x - 1), x]; }',
  '<|endoftext|> is text here, and <|im_start|> too',
];

/** The text of all bytes at once. */
function whole(tokens: Int32Array): string {
  const bytes = [...tokens].flatMap((token) => [...o200k.bytesOf(token)]);
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

/** The pieces of text of the tokens, the end's last. */
function pieces(tokens: Int32Array): string[] {
  const detokenizer = new Detokenizer(o200k);
  return [...Array.from(tokens, (token) => detokenizer.push(token)), detokenizer.end()];
}

describe('the vocabulary', () => {
  it.each(TEXTS)('gives back %j', (text) => {
    const tokens = o200k.encode(text);
    expect(tokens.every((token) => token < 199_998)).toBe(true);
    expect(whole(tokens)).toBe(text);
    expect(new Detokenizer(o200k).pushAll(tokens)).toBe(text);
  });

  it('knows the bytes of every token, and the text of those that are whole characters', () => {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });
    let numTexts = 0;
    for (let token = 0; token < 199_998; token++) {
      const bytes = o200k.bytesOf(token);
      if (bytes.length === 0) throw new Error(`token ${token} has no bytes`);
      const text = o200k.textOf(token);
      if (text === null) continue;
      if (decoder.decode(bytes) !== text) throw new Error(`token ${token} is not ${JSON.stringify(text)}`);
      numTexts++;
    }
    expect(numTexts).toBeGreaterThan(190_000);
    expect([o200k.bytesOf(o200k.endOfText).length, o200k.bytesOf(o200k.size - 1).length]).toEqual([0, 0]);
    for (const unknown of [o200k.size, 2 ** 31 - 1, -1])
      expect([o200k.textOf(unknown), whole(Int32Array.of(unknown))]).toEqual([null, '\ufffd']);
  });

  it('takes half a surrogate pair as U+FFFD', () => {
    expect(whole(o200k.encode('a\ud83d b'))).toBe('a\ufffd b');
  });
});

describe('a detokenizer', () => {
  it('never ends a piece within a character, and loses none', () => {
    const random = new Random(5);
    for (let round = 0; round < 2000; round++) {
      const tokens = Int32Array.from({ length: 1 + random.below(12) }, () => {
        // Many of them bytes that are no character by themselves.
        return random.below(3) === 0 ? 94 + random.below(162) : random.below(o200k.size + 5);
      });
      const parts = pieces(tokens);
      expect(parts.join('')).toBe(whole(tokens));
      for (const part of parts) expect(part).not.toMatch(/\p{Surrogate}/u);
    }
  });

  it('gives a character with the last of its tokens', () => {
    const tokens = o200k.encode('\u{1fae0}\u{10fffd}');
    expect(tokens.length).toBeGreaterThan(2);
    expect(pieces(tokens).filter((piece) => piece !== '')).toEqual(['\u{1fae0}', '\u{10fffd}']);
  });

  it('says at the end what never became whole', () => {
    const [first] = o200k.encode('\u{10fffd}');
    expect(pieces(Int32Array.of(first))).toEqual(['', '\ufffd']);
    const again = new Detokenizer(o200k);
    again.push(first);
    again.end();
    expect([again.pushAll(o200k.encode('word')), again.end()]).toEqual(['word', '']);
  });
});
