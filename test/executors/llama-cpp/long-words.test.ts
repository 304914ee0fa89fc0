// Texts of one long word, which would exhaust the stack of any other thread.
import { describe, expect, it } from 'vitest';
import { llamaForTests } from '../../support/llama/library.js';
import { share } from '../../support/share.js';
import { useLlama } from './use-llama.js';

const { model } = useLlama();

/** Pre-tokenizers that cut by std::regex: the simplest pattern, those of the large families, and one with look-ahead for each character. */
const PATTERNS = ['default', 'gpt-4o', 'tekken', 'deepseek-v3', 'deepseek-llm', 'falcon', 'bloom'];
/** Texts that one pattern or another takes as one word, however long they are. */
const RUNS = ['.', ' ', 'A', '1', '漢', '\n'];
const LENGTH = 30_000;

describe.skipIf(llamaForTests().folder === null)('a text of one long word', () => {
  it.each(share(PATTERNS.slice(0, 3), PATTERNS))(
    'has tokens, at once and off the event loop, with the pattern of %s',
    async (preTokenizer) => {
      const tokenizer = await model({ preTokenizer, layers: 1 });
      const textOf = (tokens: Int32Array) =>
        Buffer.concat(Array.from(tokens, (token) => tokenizer.piece(token, false))).toString();
      for (const run of RUNS) {
        const text = run.repeat(LENGTH / Buffer.byteLength(run));
        const tokens = await tokenizer.tokenizeAsync(text);
        expect(textOf(tokens) === text, `${preTokenizer} ${run}`).toBe(true);
      }
      // The same in the thread that calls.
      expect(textOf(tokenizer.tokenize('.'.repeat(LENGTH)))).toBe('.'.repeat(LENGTH));
      expect(tokenizer.info.longestToken).toBe('<|begin_of_text|>'.length);
    },
  );

  it('is refused where a word is longer than any of use, but not a text of many words', async () => {
    const tokenizer = await model({ layers: 1 });
    const message =
      /^the model .* cannot write the text: it must have at most 524288 bytes in one word, got 524289/;
    const refused = { code: 'ERR_BLOCKSTEP_BAD_MODEL', message: expect.stringMatching(message) };
    expect(() => tokenizer.tokenize('.'.repeat(524_289))).toThrow(expect.objectContaining(refused));
    await expect(tokenizer.tokenizeAsync('.'.repeat(524_289))).rejects.toMatchObject(refused);
    expect((await tokenizer.tokenizeAsync('漢字。\n'.repeat(60_000))).length).toBe(600_000);
    // Tokenizers that cut by no pattern take any text.
    const pieces = await model({ vocabulary: 'llama', layers: 1 });
    expect((await pieces.tokenizeAsync('.'.repeat(524_289))).length).toBe(524_290);
  });

  it('of SentencePiece is taken in parts, with the tokens that the whole has', async () => {
    const tokenizer = await model({ vocabulary: 'llama', layers: 1 });
    const of = (text: string): number[] => [...tokenizer.tokenize(text)];
    // llama.cpp puts a space before each text.
    const before = 2 * of('漢').length - of('漢漢').length;
    const words = Array.from(
      { length: 800 },
      (_, i) => `${'漢\n.é'[i % 4]}${' word and'.slice(i % 9).repeat(i % 7)}`,
    );
    const parts = words.map((word) => of(word).slice(before));
    const tokensOf = (count: number): number[] => [
      ...of('漢').slice(0, before),
      ...parts.slice(0, count).flat(),
    ];
    // So many are one part to llama.cpp itself.
    expect(of(words.slice(0, 100).join(''))).toEqual(tokensOf(100));
    expect(Buffer.byteLength(words.join(''))).toBeGreaterThan(8192);
    expect(of(words.join(''))).toEqual(tokensOf(800));
    const { bosToken } = tokenizer.info;
    const whole = [...tokenizer.tokenize(words.join(''), { addSpecial: true, parseSpecial: true })];
    expect(whole).toEqual([bosToken, ...tokensOf(800)]);
  });

  it('waits its turn, and is refused where it is none, or the model is gone', async () => {
    const tokenizer = await model({ layers: 1, seed: 2 });
    const texts = ['one two', '.'.repeat(10_000), 'three'];
    const tokens = await Promise.all(
      texts.map((text) => tokenizer.tokenizeAsync(text, { addSpecial: true })),
    );
    expect(tokens).toEqual(texts.map((text) => tokenizer.tokenize(text, { addSpecial: true })));
    await expect(tokenizer.tokenizeAsync(5 as never)).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_BAD_ARG',
    });
    tokenizer.dispose();
    await expect(tokenizer.tokenizeAsync('a')).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
  });
});
