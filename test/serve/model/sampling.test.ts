// Parameters of sampling, formats and log-probabilities over HTTP, as the executor gets them and as
// clients do.
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../../src/index.js';
import { type ModelOptions, o200k, type TextFormat } from '../../../src/serve/index.js';
import { answerOf, eventsOf, MODEL, serve } from '../support/served.js';
import { BYTES, NotedGrammar, Sayer } from './small-model.js';

/** Says `hé`, of three tokens, and ends. */
const HE = [104, 0xc3, 0xa9, 257];
const ALL = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'seed',
  'repetition_penalty',
  'logit_bias',
  'logprobs',
  'prompt_logprobs',
];

async function served(model: Partial<ModelOptions> = {}, said = HE) {
  const executor = new Sayer(said);
  const whole = { id: MODEL, vocabulary: BYTES, sampling: ALL, ...model } as ModelOptions;
  const { post, url } = await serve({ engine: { executor }, serve: { model: whole } });
  return { executor, post, url };
}

const messages = [{ role: 'user', content: 'a' }];

describe('parameters of sampling', () => {
  it('reach the executor under their names, with the defaults of the model', async () => {
    const { post, executor } = await served({ samplingDefaults: { temperature: 0.8, top_k: 40 } });
    const asked = { temperature: 0.1, seed: 7, min_p: 0.1, logit_bias: { 5: -100, 6: 1.5 } };
    await post('/v1/completions', { prompt: 'a', ...asked });
    await post('/v1/chat/completions', { messages });
    expect(executor.params).toEqual([
      { temperature: 0.1, top_k: 40, seed: 7, min_p: 0.1, logit_bias: { 5: -100, 6: 1.5 } },
      { temperature: 0.8, top_k: 40 },
    ]);
  });

  it('give each choice of a prompt a seed of its own', async () => {
    const { post, executor } = await served();
    const seeds = async (seed: number) => {
      executor.params.length = 0;
      await post('/v1/completions', { prompt: ['a', 'b'], n: 2, max_tokens: 1, seed });
      return executor.params.map((params) => (params as { seed: number }).seed);
    };
    expect(await seeds(7)).toEqual([7, 8, 7, 8]);
    const largest = Number.MAX_SAFE_INTEGER;
    expect(await seeds(largest)).toEqual([largest, 1 - largest, largest, 1 - largest]);
    await post('/v1/completions', { prompt: 'a', n: 2, max_tokens: 1 });
    expect(executor.params.slice(-2)).toEqual([{}, {}]);
  });

  it.each<[object, string]>([
    [{ logit_bias: [1] }, 'logit_bias'],
    [{ logit_bias: { x: 1 } }, 'logit_bias'],
    [{ logit_bias: { 259: 1 } }, 'logit_bias'],
    [{ logit_bias: { 5: 101 } }, 'logit_bias.5'],
    [{ logit_bias: { 5: '1' } }, 'logit_bias.5'],
    [{ logprobs: 21 }, 'logprobs'],
    [{ logprobs: -1 }, 'logprobs'],
  ])('are refused where they are wrong: %j', async (wrong, param) => {
    const { post } = await served();
    const response = await post('/v1/completions', { prompt: 'a', ...wrong });
    const { error } = await answerOf(response);
    expect([response.status, error.param, error.code]).toEqual([400, param, 'invalid_value']);
  });

  it.each([
    [{ logit_bias: { 5: 1 } }, 'logit_bias'],
    [{ logprobs: 1 }, 'logprobs'],
  ])('are refused where the model does not heed them: %j', async (asked, param) => {
    const { post } = await served({ sampling: ['temperature'] });
    const { error } = await answerOf(post('/v1/completions', { prompt: 'a', ...asked }));
    expect([error.param, error.code]).toEqual([param, 'unsupported_parameter']);
    const ignoring = await served({ sampling: 'ignore' });
    const { status } = await ignoring.post('/v1/completions', { prompt: 'a', logit_bias: { 5: 1 } });
    expect(status).toBe(200);
  });
});

describe('a logit bias', () => {
  it('is of at most 1,024 tokens', async () => {
    const { post } = await served({ vocabulary: o200k });
    const of = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, token) => [token, 1]));
    const say = (count: number) =>
      post('/v1/completions', { prompt: 'a', max_tokens: 1, logit_bias: of(count) });
    expect((await say(1024)).status).toBe(200);
    const { error } = await answerOf(say(1025));
    expect(error.message).toBe('logit_bias must be of at most 1024 tokens, got 1025 tokens');
  });
});

describe('log-probabilities', () => {
  const token = (text: string, byte: number, logprob: number) => ({ token: text, logprob, bytes: [byte] });

  it('come with a chat, of each token and of the likeliest', async () => {
    const { post, executor } = await served();
    const asked = { messages, logprobs: true, top_logprobs: 2 };
    const body = await answerOf(post('/v1/chat/completions', asked));
    expect(executor.params).toEqual([{ logprobs: 2 }]);
    const half = token('\ufffd', 0xc3, -0.5);
    expect(body.choices[0]).toMatchObject({
      message: { content: 'hé' },
      logprobs: {
        content: [
          { ...token('h', 104, -0.5), top_logprobs: [token('h', 104, -0.5), token('x', 120, -1.5)] },
          { ...half, top_logprobs: [half, token('x', 120, -1.5)] },
          { ...token('\ufffd', 0xa9, -0.5), top_logprobs: [{}, {}] },
        ],
        refusal: null,
      },
    });
  });

  it('come in pieces where the text does, each once', async () => {
    const { post } = await served();
    const asked = { messages, logprobs: true, stream: true };
    const events = await eventsOf(await post('/v1/chat/completions', asked));
    const content = events.flatMap(({ choices }) => choices[0].logprobs?.content ?? []);
    expect(content.map(({ token: text, top_logprobs }) => [text, top_logprobs])).toEqual([
      ['h', []],
      ['\ufffd', []],
      ['\ufffd', []],
    ]);
    expect(events.map(({ choices }) => choices[0].delta.content ?? '').join('')).toBe('hé');
  });

  it('come with a completion, by the tokens’ places in the text', async () => {
    const { post } = await served({}, [...Buffer.from('abc'), 257]);
    const asked = { prompt: 'xy', logprobs: 3 };
    const body = await answerOf(post('/v1/completions', asked));
    expect(body.choices[0]).toMatchObject({
      text: 'abc',
      logprobs: {
        tokens: ['a', 'b', 'c'],
        token_logprobs: [-0.5, -0.5, -0.5],
        // The probability 0 has no logarithm that JSON could write.
        top_logprobs: [{ a: -0.5, x: -1.5, y: -9999 }, { b: -0.5 }, { c: -0.5 }],
        text_offset: [0, 1, 2],
      },
    });
    const streamed = await eventsOf(await post('/v1/completions', { ...asked, stream: true }));
    const offsets = streamed.flatMap(({ choices }) => choices[0].logprobs?.text_offset ?? []);
    expect(offsets).toEqual([0, 1, 2]);
  });

  it('are of the token alone, if no others are asked for, and absent if none are', async () => {
    const { post } = await served();
    const none = await answerOf(post('/v1/completions', { prompt: 'a', logprobs: 0 }));
    expect(none.choices[0].logprobs?.top_logprobs?.[0]).toEqual({ h: -0.5 });
    for (const logprobs of [false, null]) {
      const absent = await answerOf(post('/v1/completions', { prompt: 'a', logprobs }));
      expect(absent.choices[0].logprobs).toBe(null);
    }
  });

  it('are not asked for by halves', async () => {
    const { post } = await served();
    const { error } = await answerOf(post('/v1/chat/completions', { messages, top_logprobs: 2 }));
    expect(error.param).toBe('top_logprobs');
  });

  it('come with an echo for its tokens too, of which the first has none in front', async () => {
    const { post, executor } = await served();
    const asked = { prompt: 'aé!', echo: true, logprobs: 1, max_tokens: 2 };
    const { choices, usage } = await answerOf(post('/v1/completions', asked));
    expect(choices[0].text).toBe('aé!h\ufffd');
    expect(choices[0].logprobs).toEqual({
      // First the token with which every prompt begins, whose text is empty.
      tokens: ['', 'a', '\ufffd', '\ufffd', '!', 'h', '\ufffd'],
      token_logprobs: [null, -1, -2, -3, -4, -0.5, -0.5],
      top_logprobs: [
        null,
        { x: -0.5, a: -1 },
        { x: -0.5, '\ufffd': -2 },
        { x: -0.5, '\ufffd': -3 },
        { x: -0.5, '!': -4 },
        { h: -0.5 },
        { '\ufffd': -0.5 },
      ],
      text_offset: [0, 0, 1, 1, 2, 3, 4],
    });
    expect(usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 2 });
    // Cached tokens are not computed, so no token of the prompt may be cached.
    await post('/v1/completions', asked);
    const salts = executor.salts;
    expect(new Set(salts).size).toBe(2);
  });

  it('come with an echo alone, where no tokens are asked for', async () => {
    const { post } = await served();
    const asked = { prompt: ['ab', 'cd'], n: 2, echo: true, logprobs: 0, max_tokens: 0 };
    const { choices, usage } = await answerOf(post('/v1/completions', asked));
    expect(choices.map(({ text, finish_reason }) => [text, finish_reason])).toEqual([
      ['ab', 'length'],
      ['ab', 'length'],
      ['cd', 'length'],
      ['cd', 'length'],
    ]);
    for (const { logprobs } of choices) expect(logprobs).toMatchObject({ token_logprobs: [null, -1, -2] });
    expect(usage).toMatchObject({ prompt_tokens: 6, completion_tokens: 0 });
    const plain = await answerOf(post('/v1/completions', { prompt: 'ab', echo: true, max_tokens: 0 }));
    expect(plain.choices[0]).toMatchObject({ text: 'ab', finish_reason: 'length', logprobs: null });
    const { error } = await answerOf(post('/v1/completions', { prompt: 'ab', max_tokens: 0 }));
    expect([error.param, error.code]).toEqual(['max_tokens', 'invalid_value']);
  });

  it('come with a streamed echo, together with its text', async () => {
    const { url } = await served();
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    const asked = {
      model: MODEL,
      prompt: 'abc',
      echo: true,
      logprobs: 0,
      max_tokens: 1,
      stream: true,
    } as const;
    let text = '';
    const tokens: string[] = [];
    for await (const { choices } of await openai.completions.create(asked)) {
      text += choices[0].text;
      tokens.push(...(choices[0].logprobs?.tokens ?? []));
      expect(text.length).toBe(tokens.join('').length);
    }
    expect([text, tokens]).toEqual(['abch', ['', 'a', 'b', 'c', 'h']]);
  });

  it('of an echo are refused where the model does not know them of a prompt', async () => {
    const { post } = await served({ sampling: ['logprobs'] });
    const { error } = await answerOf(post('/v1/completions', { prompt: 'a', echo: true, logprobs: 1 }));
    expect([error.param, error.code]).toEqual(['echo', 'unsupported_parameter']);
    expect((await post('/v1/completions', { prompt: 'a', logprobs: 1 })).status).toBe(200);
  });

  it('are read by OpenAI’s own client', async () => {
    const { url } = await served();
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    const runner = openai.chat.completions.stream({
      model: MODEL,
      messages: [{ role: 'user', content: 'a' }],
      logprobs: true,
      top_logprobs: 1,
    });
    const { choices } = await runner.finalChatCompletion();
    expect(choices[0].logprobs?.content?.map(({ logprob }) => logprob)).toEqual([-0.5, -0.5, -0.5]);
  });
});

describe('formats', () => {
  const schema = { type: 'object', properties: {} };
  const grammar = (format: TextFormat) => new NotedGrammar(format);

  it.each<[object, TextFormat]>([
    [{ response_format: { type: 'json_object' } }, { type: 'json_object' }],
    [{ response_format: { type: 'json_object', schema } }, { type: 'json_schema', schema }],
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } } },
      { type: 'json_schema', schema },
    ],
    [{ grammar: 'root ::= "a"' }, { type: 'gbnf', grammar: 'root ::= "a"' }],
  ])('reach the executor as grammars, one for each choice: %j', async (asked, format) => {
    const { post, executor } = await served({ grammar });
    for (const [path, prompt] of [
      ['/v1/chat/completions', { messages }],
      ['/v1/completions', { prompt: 'a' }],
    ] as const)
      expect((await post(path, { ...prompt, ...asked, n: 2 })).status).toBe(200);
    expect(executor.grammars).toHaveLength(4);
    expect(new Set(executor.grammars).size).toBe(4);
    for (const each of executor.grammars) expect((each as NotedGrammar).format).toEqual(format);
  });

  it.each([
    [{ response_format: { type: 'xml' } }, 'response_format.type'],
    [{ response_format: {} }, 'response_format.type'],
    [
      { response_format: { type: 'json_object', json_schema: { schema: {} } } },
      'response_format.json_schema',
    ],
    [
      { response_format: { type: 'json_schema', json_schema: { schema: {} }, schema: {} } },
      'response_format.schema',
    ],
    [{ response_format: { type: 'text', schema: {} } }, 'response_format.schema'],
    [{ response_format: { type: 'json_object', schema: 'x' } }, 'response_format.schema'],
    [{ response_format: { type: 'json_object', strict: true } }, 'response_format.strict'],
    [
      { response_format: { type: 'json_schema', json_schema: { schema: {}, shema: {} } } },
      'response_format.json_schema.shema',
    ],
    [
      { response_format: { type: 'json_schema', json_schema: { schema: {}, strict: 1 } } },
      'response_format.json_schema.strict',
    ],
    [{ response_format: 'json' }, 'response_format'],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema.schema'],
    [{ grammar: 5 }, 'grammar'],
    [{ grammar: 'root ::= "a"', response_format: { type: 'json_object' } }, 'grammar'],
  ])('are refused where they are wrong: %j', async (asked, param) => {
    const { post } = await served({ grammar });
    const response = await post('/v1/chat/completions', { messages, ...asked });
    expect([response.status, (await answerOf(response)).error.param]).toEqual([400, param]);
  });

  it('are refused where nothing holds the model to them, unless any text will do', async () => {
    const { post, executor } = await served();
    for (const asked of [{ response_format: { type: 'json_object' } }, { grammar: 'root ::= "a"' }]) {
      const { error } = await answerOf(post('/v1/chat/completions', { messages, ...asked }));
      expect([error.param, error.code]).toEqual([Object.keys(asked)[0], 'unsupported_parameter']);
    }
    const text = { response_format: { type: 'text' } };
    expect((await post('/v1/chat/completions', { messages, ...text })).status).toBe(200);
    expect(executor.grammars).toEqual([null]);
  });

  it('that the model cannot be held to are refused in its own words', async () => {
    const refusing = () => {
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', 'the grammar has no root');
    };
    const { post } = await served({ grammar: refusing });
    const response = await post('/v1/completions', { prompt: 'a', grammar: 'x' });
    expect([response.status, (await answerOf(response)).error.message]).toEqual([
      400,
      'the grammar has no root',
    ]);
  });
});
