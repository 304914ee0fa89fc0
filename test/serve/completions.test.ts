// Completions and chats: texts, streams, stops, batches, usage; tokens and text.
import { describe, expect, it } from 'vitest';
import { o200k } from '../../src/serve/index.js';
import { BYTES } from './model/small-model.js';
import { answerOf, eventsOf, MODEL, serve } from './support/served.js';

const ROSE = 'A rose is a rose is a rose';

describe('/v1/completions', () => {
  it('tells of so many tokens as take no time to write', async () => {
    const { post } = await serve({ serve: { model: { id: MODEL, vocabulary: BYTES } } });
    const { count, token_strs: texts } = (await (
      await post('/tokenize', { prompt: 'a'.repeat(20_000), return_token_strs: true })
    ).json()) as { count: number; token_strs: string[] };
    expect([count, texts.length, texts[0], texts[19_999]]).toEqual([20_001, 20_001, '', 'a']);
    const refused = await post('/tokenize', { prompt: 'a'.repeat(300_000) });
    expect(refused.status).toBe(400);
    expect((await answerOf(refused)).error.message).toContain(
      'at most 262144 tokens, got a text of 300001 tokens',
    );
  });

  it('answers with text, and says how many tokens there were', async () => {
    const { post } = await serve();
    const response = await post('/v1/completions', { model: MODEL, prompt: ROSE, max_tokens: 8 });
    expect(response.status).toBe(200);
    const body = await answerOf(response);
    expect(body).toEqual({
      id: expect.stringMatching(/^cmpl-[0-9a-f]{32}$/),
      object: 'text_completion',
      created: expect.closeTo(Date.now() / 1000, -2),
      model: MODEL,
      choices: [
        {
          index: 0,
          text: ' is a rose is a rose is a',
          logprobs: null,
          finish_reason: 'length',
          stop_reason: null,
        },
      ],
      usage: {
        prompt_tokens: 8,
        completion_tokens: 8,
        total_tokens: 16,
        prompt_tokens_details: { cached_tokens: 0 },
      },
    });
  });

  it('streams the same text, and the usage at the end if it is asked for', async () => {
    const { post } = await serve();
    const request = { model: MODEL, prompt: ROSE, max_tokens: 8, stream: true };
    const response = await post('/v1/completions', request);
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const chunks = await eventsOf(response);
    expect(chunks.map(({ choices }) => choices[0].text).join('')).toBe(' is a rose is a rose is a');
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.map(({ choices }) => choices[0].finish_reason)).toEqual([
      ...chunks.slice(1).map(() => null),
      'length',
    ]);
    const counted = await eventsOf(
      await post('/v1/completions', { ...request, stream_options: { include_usage: true } }),
    );
    expect(counted.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 8, completion_tokens: 8 } });
    expect(counted.slice(0, -1).map(({ usage }) => usage)).toEqual(chunks.map(() => null));
    expect(chunks.map(({ usage }) => usage)).toEqual(chunks.map(() => undefined));
  });

  it('sends the first token at once, and then chunks of as many tokens as were asked for', async () => {
    const { post } = await serve({ serve: { streamInterval: 3 } });
    const request = { model: MODEL, prompt: ROSE, max_tokens: 9, n: 2, stream: true };
    const events = await eventsOf(await post('/v1/completions', request));
    const texts: string[][] = [[], []];
    for (const { choices } of events) for (const { index, text } of choices) texts[index].push(text);
    for (const pieces of texts) expect(pieces).toEqual([' is', ' a rose is', ' a rose is', ' a rose']);
  });

  it('takes tokens, batches of texts and of tokens, and n choices of each', async () => {
    const { post } = await serve();
    const tokens = [...o200k.encode(ROSE)];
    for (const prompt of [tokens, [ROSE, 'one two one'], [tokens, tokens]]) {
      const body = await answerOf(post('/v1/completions', { prompt, max_tokens: 3, n: 2 }));
      const count = 2 * (typeof prompt[0] === 'number' ? 1 : prompt.length);
      expect(body.choices.map(({ index }) => index)).toEqual(Array.from({ length: count }, (_, i) => i));
      expect(body.choices[0].text).toBe(' is a rose');
      expect(body.choices[1].text).toBe(' is a rose');
      expect(body.usage.completion_tokens).toBe(3 * count);
    }
  });

  it('ends at stop strings, across tokens and whatever the client reads', async () => {
    const { post } = await serve();
    const request = { prompt: ROSE, max_tokens: 40, stop: ['se is', 'nothing'] };
    const body = await answerOf(post('/v1/completions', request));
    expect(body.choices[0]).toMatchObject({ text: ' is a ro', finish_reason: 'stop', stop_reason: 'se is' });
    expect(body.usage.completion_tokens).toBe(4);
    const kept = await answerOf(post('/v1/completions', { ...request, include_stop_str_in_output: true }));
    expect(kept.choices[0].text).toBe(' is a rose is');
    const later = await answerOf(post('/v1/completions', { ...request, min_tokens: 5 }));
    expect(later.choices[0]).toMatchObject({ text: ' is a rose is a ro', stop_reason: 'se is' });
    const chunks = await eventsOf(await post('/v1/completions', { ...request, stream: true }));
    expect(chunks.map(({ choices }) => choices[0].text).join('')).toBe(' is a ro');
    expect(chunks.at(-1)!.choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: 'se is' });
  });

  it('ends at stop tokens, which are no part of the text', async () => {
    const { post } = await serve();
    const [rose] = o200k.encode(' rose');
    const request = { prompt: ROSE, max_tokens: 40, stop_token_ids: [rose] };
    const body = await answerOf(post('/v1/completions', request));
    expect(body.choices[0]).toMatchObject({ text: ' is a', finish_reason: 'stop', stop_reason: rose });
  });

  it('echoes the prompt, also in a stream', async () => {
    const { post } = await serve();
    const request = { prompt: [ROSE, 'one two one two one'], max_tokens: 2, echo: true };
    const body = await answerOf(post('/v1/completions', request));
    expect(body.choices.map(({ text }) => text)).toEqual([`${ROSE} is a`, 'one two one two one two one']);
    const chunks = await eventsOf(await post('/v1/completions', { ...request, stream: true }));
    const texts = ['', ''];
    for (const { choices } of chunks) texts[choices[0].index] += choices[0].text;
    expect(texts).toEqual([`${ROSE} is a`, 'one two one two one two one']);
  });

  it('counts cached tokens, unless the salts differ', async () => {
    const { post } = await serve();
    const request = { prompt: `${ROSE} `.repeat(20), max_tokens: 1 };
    const cached = async (more: object) => {
      const body = await answerOf(post('/v1/completions', { ...request, ...more }));
      return body.usage.prompt_tokens_details.cached_tokens;
    };
    expect(await cached({})).toBe(0);
    expect(await cached({})).toBeGreaterThan(100);
    expect(await cached({ cache_salt: 'mine' })).toBe(0);
    expect(await cached({ cache_salt: 'mine' })).toBeGreaterThan(100);
  });

  it('counts cached tokens once for each prompt, however many choices there are', async () => {
    const { post } = await serve();
    const prompt = `${ROSE} `.repeat(20);
    const cached = async (more: object) => {
      const body = await answerOf(post('/v1/completions', { prompt, max_tokens: 1, ...more }));
      return body.usage.prompt_tokens_details.cached_tokens;
    };
    // The second choice finds what the first one has computed, which was not there before.
    expect(await cached({ n: 3 })).toBe(0);
    const once = await cached({});
    expect(once).toBeGreaterThan(100);
    expect(await cached({ n: 3 })).toBe(once);
    expect(await cached({ n: 3, prompt: [prompt, prompt] })).toBe(2 * once);
  });

  it('gives whole characters, whatever the tokens have', async () => {
    const { post } = await serve();
    const text = '🦄 ünïcode 漢字 🦄 ünïcode 漢字 "quoted" \\ \n 🦄 ünïcode';
    const request = { prompt: text, max_tokens: 30, stream: true };
    const response = await post('/v1/completions', request);
    const bytes = Buffer.from(await response.clone().arrayBuffer());
    expect(bytes.toString('utf8')).not.toContain('\ufffd');
    const whole = await answerOf(post('/v1/completions', { ...request, stream: false }));
    const chunks = await eventsOf(response);
    expect(chunks.map(({ choices }) => choices[0].text).join('')).toBe(whole.choices[0].text);
    expect(whole.choices[0].text).toContain('漢字');
  });
});

describe('/v1/chat/completions', () => {
  const messages = [
    { role: 'system', content: 'Say one two three.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'one two three' },
        { type: 'text', text: ' one' },
      ],
    },
  ];

  it('answers with a message, and streams the same', async () => {
    const { post } = await serve();
    const body = await answerOf(post('/v1/chat/completions', { messages, max_completion_tokens: 6 }));
    expect(body).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', refusal: null }, finish_reason: 'length' }],
      usage: { completion_tokens: 6 },
    });
    const chunks = await eventsOf(
      await post('/v1/chat/completions', { messages, max_tokens: 6, stream: true }),
    );
    expect(chunks[0]).toMatchObject({
      object: 'chat.completion.chunk',
      choices: [{ delta: { role: 'assistant', content: '' }, finish_reason: null }],
    });
    const text = chunks.map(({ choices }) => choices[0].delta.content ?? '').join('');
    expect(text).toBe(body.choices[0].message.content);
    expect(text).not.toBe('');
    expect(chunks.at(-1)!.choices[0].finish_reason).toBe('length');
  });
});

describe('tokens and text', () => {
  it('are turned into each other', async () => {
    const { post } = await serve();
    const tokens = await answerOf(post('/tokenize', { prompt: ROSE, return_token_strs: true }));
    expect(tokens).toMatchObject({ count: 8, max_model_len: 2048 });
    expect(tokens.token_strs.join('')).toBe(ROSE);
    expect(await (await post('/detokenize', { tokens: tokens.tokens })).json()).toEqual({ prompt: ROSE });
    const chat = await answerOf(post('/tokenize', { messages: [{ role: 'user', content: 'hi' }] }));
    expect(await (await post('/detokenize', { tokens: chat.tokens })).json()).toEqual({
      prompt: 'user: hi\nassistant:',
    });
  });
});
