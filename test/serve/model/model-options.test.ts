// The options of a model, from users.
import fastify from 'fastify';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Engine, ReferenceExecutor } from '../../../src/index.js';
import { blockstepServer, type ModelOptions } from '../../../src/serve/index.js';

const render = () => '';

function refusalOf(model: object): Promise<unknown> {
  const sizes = { numBlocks: 8, blockSize: 16 };
  const engine = new Engine({ ...sizes, executor: new ReferenceExecutor(sizes) });
  onTestFinished(() => engine.dispose());
  const app = fastify();
  const options = { engine, model: { id: 'm', ...model } as ModelOptions };
  return Promise.resolve(app.register(blockstepServer, options)).then(
    () => null,
    (error: unknown) => error,
  );
}

describe('what is said of a model', () => {
  it.each<[object, RegExp]>([
    [{ chatTemplate: 'a template' }, /^model\.chatTemplate must be a ChatTemplate.*got "a template"$/],
    [{ chatTemplate: {} }, /^model\.chatTemplate must be/],
    [
      { chatTemplate: { render }, chatPrompt: render },
      /^model\.chatPrompt must be absent where there is a chatTemplate/,
    ],
    [{ id: '' }, /^model\.id must be a name of 1 to 200 characters/],
    [{ chatPrompt: 'x' }, /^model\.chatPrompt must be a function/],
    [{ grammar: 'x' }, /^model\.grammar must be a function/],
    [{ toolCallParser: 'x' }, /^model\.toolCallParser must be "auto", "none", or one of hermes, .*got "x"$/],
    [
      { reasoningParser: 5 },
      /^model\.reasoningParser must be "auto", "none", or one of deepseek_r1, .*got 5$/,
    ],
    [{ sampling: ['heat'] }, /^model\.sampling must be .*logit_bias, logprobs/],
    [
      { samplingDefaults: { temperature: 1 } },
      /^model\.samplingDefaults must be an object of parameters that/,
    ],
    [{ samplingDefaults: 5, sampling: ['seed'] }, /^model\.samplingDefaults must be/],
    [{ samplingDefaults: { seed: 5 }, sampling: 'ignore' }, /^model\.samplingDefaults must be/],
    [{ vocabulary: { size: 5, endOfText: 1 } }, /^model\.vocabulary must be a Vocabulary/],
    [
      {
        vocabulary: { size: 5, endOfText: 1, endTokens: 3, encode: render, textOf: render, bytesOf: render },
      },
      /^model\.vocabulary must be a Vocabulary/,
    ],
  ])('is refused if it is wrong: %j', async (model, says) => {
    const error = await refusalOf(model);
    expect(error).toMatchObject({ code: 'ERR_BLOCKSTEP_BAD_ARG', message: expect.stringMatching(says) });
  });

  it('is taken if it is right', async () => {
    const sampling = ['temperature', 'logprobs'] as const;
    const samplingDefaults = { temperature: 0.5 };
    expect(await refusalOf({ chatTemplate: { render }, sampling, samplingDefaults, grammar: render })).toBe(
      null,
    );
  });
});
