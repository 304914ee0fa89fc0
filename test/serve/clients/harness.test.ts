// The requests of evaluation harnesses.
import { describe, expect, it } from 'vitest';
import { BYTES, Sayer } from '../model/small-model.js';
import { type Answer, answerOf, MODEL, serve } from '../support/served.js';

/**
 * The bodies by which lm-evaluation-harness scores a continuation, and generates (its model
 * `local-completions`).
 */
const SCORED = { model: MODEL, temperature: 0, max_tokens: 1, logprobs: 1, seed: 1234, echo: true };
const GENERATED = { model: MODEL, max_tokens: 4, temperature: 0, stop: ['\n\n'], seed: 1234 };

/** How it reads the score of a choice: the sum behind the context, and whether each token was the most likely one. */
function scoreOf({ logprobs }: Answer['choices'][number], context: number): [number, boolean] {
  const own = logprobs!.token_logprobs!.slice(context, -1) as number[];
  const top = logprobs!.top_logprobs!.slice(context, -1);
  const sum = own.reduce((all, each) => all + each, 0);
  return [sum, own.every((each, i) => each === Math.max(...(Object.values(top[i]) as number[])))];
}

function harness() {
  const executor = new Sayer([...Buffer.from('four')]);
  const model = {
    id: MODEL,
    vocabulary: BYTES,
    sampling: ['temperature', 'seed', 'logprobs', 'prompt_logprobs'] as const,
  };
  return serve({ engine: { executor }, serve: { model } });
}

describe('an evaluation harness', () => {
  it('scores continuations, by their tokens or by their texts, several at once', async () => {
    const { post } = await harness();
    const texts = ['2 + 2 = 4', 'a is b'];
    // The model's tokens are bytes. It says of the token at place i that its log-probability is -i, and that `x` has -0.5.
    const tokens = texts.map((text) => [...Buffer.from(text)]);
    const byTokens = await answerOf(post('/v1/completions', { ...SCORED, prompt: tokens }));
    expect(byTokens.choices.map((choice, i) => scoreOf(choice, tokens[i].length - 1))).toEqual([
      [-8, false],
      [-5, false],
    ]);
    const byTexts = await answerOf(post('/v1/completions', { ...SCORED, prompt: texts }));
    // Behind the token with which every prompt begins.
    expect(byTexts.choices.map((choice, i) => scoreOf(choice, tokens[i].length))).toEqual([
      [-9, false],
      [-6, false],
    ]);
    for (const { logprobs } of [...byTokens.choices, ...byTexts.choices]) {
      const { tokens: names, token_logprobs, top_logprobs, text_offset } = logprobs!;
      expect(token_logprobs![0]).toBeNull();
      const lengths = [names, token_logprobs, top_logprobs, text_offset].map((each) => each!.length);
      expect(new Set(lengths).size).toBe(1);
    }
  });

  it('generates several texts at once', async () => {
    const { post } = await harness();
    const prompt = ['2 + 2 =', '1 + 3 ='].map((text) => [...Buffer.from(text)]);
    const { choices } = await answerOf(post('/v1/completions', { ...GENERATED, prompt }));
    expect(choices.map(({ index, text }) => [index, text])).toEqual([
      [0, 'four'],
      [1, 'four'],
    ]);
  });
});
