// Log-probabilities of the tokens of a prompt, against those of generated tokens.
import { describe, expect, it } from 'vitest';
import type { PromptLogprobs, TokenLogprobs } from '../../../src/engine/executor/sampling-params.js';
import { hasLlama, useLlama } from './use-llama.js';

class Told implements PromptLogprobs {
  readonly count: number;
  readonly at: TokenLogprobs[] = [];

  constructor(count: number) {
    this.count = count;
  }

  add(position: number, logprobs: TokenLogprobs): void {
    this.at[position] = logprobs;
  }
}

describe.skipIf(!hasLlama)('how likely the tokens of a prompt are', () => {
  const use = useLlama();

  it.each([
    ['in one step', { maxNumBatchedTokens: 256, maxNumSeqs: 8 }],
    ['in chunks', { maxNumBatchedTokens: 16, maxNumSeqs: 3 }],
    ['with drafts', { maxNumBatchedTokens: 64, maxNumSeqs: 4, numSpeculativeTokens: 2 }],
  ])('is what it is where they are generated, %s', async (_, options) => {
    const model = await use.model();
    const drafts = 'numSpeculativeTokens' in options && { speculativeMethod: 'ngram' as const };
    const { engine } = await use.engine(model, options, { ...drafts });
    const prompt = model.tokenize('a tale', { addSpecial: true });
    const likely = { temperature: 0, logprobs: 3 };
    const { tokens, extras } = await engine.submit({ prompt, maxTokens: 50, params: likely }).result();
    const whole = Int32Array.from([...prompt, ...tokens]);
    const texts = Array.from({ length: 3 }, () => new Told(3));
    await Promise.all([
      ...texts.map((told, i) => {
        const params = { prompt_logprobs: told, temperature: 0 };
        const text = whole.slice(0, whole.length - i);
        return engine.submit({ prompt: text, maxTokens: 2, params, cacheSalt: `${i}` }).result();
      }),
      engine.submit({ prompt, maxTokens: 20 }).result(),
    ]);
    for (const [i, { at }] of texts.entries()) {
      expect(Object.keys(at).map(Number)).toEqual(
        Array.from({ length: whole.length - i - 1 }, (_, k) => k + 1),
      );
      for (let k = prompt.length; k < whole.length - i; k++) {
        const generated = extras![k - prompt.length] as TokenLogprobs;
        expect(at[k].logprob).toBeCloseTo(generated.logprob, 3);
        expect(at[k].top).toHaveLength(3);
        expect(at[k].top[0].token).toBe(whole[k]);
      }
    }
  });

  it('is told again where a prompt must be computed again, and not at all of what is cached', async () => {
    const model = await use.model();
    const { engine } = await use.engine(model, { numBlocks: 12 }, { enablePrefixCaching: true });
    const prompt = model.tokenize('x'.repeat(70));
    const told = [new Told(0), new Told(0), new Told(0)];
    const ask = (of: Told, cacheSalt: string) =>
      engine.submit({ prompt, maxTokens: 60, cacheSalt, params: { prompt_logprobs: of } }).result();
    // Together they have more tokens than the pool, so one is preempted.
    await Promise.all([ask(told[0], 'a'), ask(told[1], 'b')]);
    for (const { at } of told.slice(0, 2)) expect(Object.keys(at)).toHaveLength(prompt.length - 1);
    await ask(told[2], 'b');
    expect(Object.keys(told[2].at).length).toBeLessThan(prompt.length - 1);
  });

  it('is asked for by an object alone that can be told', async () => {
    const model = await use.model();
    const { engine } = await use.engine(model);
    for (const wrong of [5, {}, { count: 21, add: () => {} }, { count: 0 }])
      expect(() =>
        engine.submit({ prompt: [1, 2], maxTokens: 1, params: { prompt_logprobs: wrong } }),
      ).toThrow(/params\.prompt_logprobs/);
  });
});
