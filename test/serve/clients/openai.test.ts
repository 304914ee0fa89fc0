// OpenAI's own client: completions, chats, aborts, errors.
import OpenAI, { APIError } from 'openai';
import { describe, expect, it } from 'vitest';
import { until } from '../../support/waiting.js';
import { isEmpty, MODEL, serve } from '../support/served.js';

const PROMPT = 'one two three one two three one';

async function client(options: Parameters<typeof serve>[0] = {}) {
  const served = await serve(options);
  const [apiKey = 'none'] = served.engine && (options.serve?.apiKeys ?? []);
  return { ...served, openai: new OpenAI({ baseURL: `${served.url}/v1`, apiKey, maxRetries: 0 }) };
}

describe('OpenAI’s own client', () => {
  it('lists models, completes, chats, and streams both', async () => {
    const { openai } = await client();
    expect((await openai.models.list()).data.map(({ id }) => id)).toEqual([MODEL]);
    expect((await openai.models.retrieve(MODEL)).id).toBe(MODEL);
    const request = { model: MODEL, prompt: PROMPT, max_tokens: 6 };
    const whole = await openai.completions.create(request);
    expect(whole.choices[0].text).toBe(' two three one two three one');
    let text = '';
    for await (const chunk of await openai.completions.create({ ...request, stream: true }))
      text += chunk.choices[0]?.text ?? '';
    expect(text).toBe(whole.choices[0].text);
    const messages = [{ role: 'user' as const, content: PROMPT }];
    const chat = await openai.chat.completions.create({ model: MODEL, messages, max_completion_tokens: 6 });
    const runner = openai.chat.completions.stream({
      model: MODEL,
      messages,
      max_completion_tokens: 6,
      stream_options: { include_usage: true },
    });
    expect(await runner.finalContent()).toBe(chat.choices[0].message.content);
    expect(await runner.totalUsage()).toMatchObject({ completion_tokens: 6 });
  });

  it('aborts: the request ends at once', async () => {
    const { openai, engine } = await client({ latencyMs: 2 });
    const stream = await openai.completions.create({
      model: MODEL,
      prompt: PROMPT,
      max_tokens: 1000,
      stream: true,
    });
    for await (const _ of stream) break;
    await until(() => isEmpty(engine), 'an empty engine');
    const controller = new AbortController();
    const whole = openai.completions.create(
      { model: MODEL, prompt: PROMPT, max_tokens: 1000 },
      { signal: controller.signal },
    );
    await until(() => engine.numRunning === 1, 'a running request');
    controller.abort();
    await expect(whole).rejects.toThrow('Request was aborted.');
    await until(() => isEmpty(engine), 'an empty engine');
  });

  it('gets errors of the kinds that it knows', async () => {
    const { openai, url } = await client({ serve: { apiKeys: ['right'] } });
    const request = { model: MODEL, prompt: PROMPT };
    const error = async (act: Promise<unknown>): Promise<APIError> => {
      const thrown = await act.then(
        () => null,
        (each: unknown) => each,
      );
      expect(thrown).toBeInstanceOf(APIError);
      return thrown as APIError;
    };
    const wrong = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'wrong', maxRetries: 0 });
    expect(await error(wrong.completions.create(request))).toMatchObject({
      status: 401,
      code: 'invalid_api_key',
    });
    expect(await error(openai.completions.create({ ...request, model: 'x' }))).toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    expect(await error(openai.completions.create({ ...request, logprobs: 5 }))).toMatchObject({
      status: 400,
      param: 'logprobs',
      code: 'unsupported_parameter',
    });
    expect(await error(openai.completions.create({ ...request, temperature: 1 }))).toMatchObject({
      status: 400,
    });
  });
});
