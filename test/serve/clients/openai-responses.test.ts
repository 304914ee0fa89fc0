// OpenAI's own client and `/v1/responses`.
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { Executor } from '../../../src/index.js';
import type { Chat, ChatTemplate } from '../../../src/serve/index.js';
import { until } from '../../support/waiting.js';
import { scripted, TWO_CALLS } from '../support/scripted.js';
import { isEmpty, MODEL, type Served, serve } from '../support/served.js';

const PROMPT = 'one two three one two three one';

async function client(options: Served = {}) {
  const served = await serve(options);
  return { ...served, openai: new OpenAI({ baseURL: `${served.url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}

describe('/v1/responses', () => {
  it('answers as a chat of the same messages, to OpenAI’s own client', async () => {
    const { openai } = await client();
    const whole = await openai.responses.create({
      model: MODEL,
      instructions: 'Count on.',
      input: PROMPT,
      max_output_tokens: 6,
    });
    const messages = [
      { role: 'system' as const, content: 'Count on.' },
      { role: 'user' as const, content: PROMPT },
    ];
    const chat = await openai.chat.completions.create({ model: MODEL, messages, max_completion_tokens: 6 });
    expect(whole.output_text).toBe(chat.choices[0].message.content);
    expect(whole).toMatchObject({
      id: expect.stringMatching(/^resp_[\da-f]{32}$/),
      object: 'response',
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      usage: {
        input_tokens: chat.usage!.prompt_tokens,
        output_tokens: 6,
        total_tokens: chat.usage!.total_tokens,
      },
    });
    const items = await openai.responses.create({
      model: MODEL,
      input: [
        { role: 'system', content: 'Count on.' },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: PROMPT }] },
      ],
      max_output_tokens: 6,
    });
    expect(items.output_text).toBe(whole.output_text);
  });

  it('streams events, numbered, that OpenAI’s own client puts together', async () => {
    const { openai } = await client({ latencyMs: 1 });
    const request = { model: MODEL, input: PROMPT, max_output_tokens: 5 };
    const types: string[] = [];
    const numbers: number[] = [];
    let text = '';
    for await (const event of await openai.responses.create({ ...request, stream: true })) {
      if (types.at(-1) !== event.type) types.push(event.type);
      numbers.push(event.sequence_number);
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.incomplete',
    ]);
    expect(numbers).toEqual(numbers.map((_, i) => i));
    const final = await openai.responses.stream(request).finalResponse();
    expect(final.output_text).toBe(text);
    expect((await openai.responses.create(request)).output_text).toBe(text);
  });

  it('ends what a client leaves, and says what failed', async () => {
    const { openai, engine } = await client({ latencyMs: 2 });
    const request = { model: MODEL, input: PROMPT, max_output_tokens: 1000, stream: true as const };
    for await (const _ of await openai.responses.create(request)) break;
    await until(() => isEmpty(engine), 'an empty engine');
    const broken: Executor = {
      usesTables: false,
      execute: () => Promise.reject(new Error('the GPU is on fire')),
    };
    const failing = await client({ engine: { executor: broken } });
    let last: unknown;
    for await (const event of await failing.openai.responses.create(request)) last = event;
    expect(last).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'executor' } },
    });
  });

  it('has calls of tools as items behind what was said, whole and streamed', async () => {
    const { text, marks } = TWO_CALLS['hermes'];
    const said = `Let me see. ${text}`;
    const { openai } = await scripted([said, said], { marks });
    const tool = (name: string) => ({
      type: 'function' as const,
      name,
      strict: null,
      parameters: { type: 'object', properties: {} },
    });
    const request = { model: MODEL, input: '1 + 2?', tools: [tool('add'), tool('now')] };
    const namesOf = (output: readonly { type: string }[]) =>
      output.map((item) => {
        const { type, name, arguments: given } = item as { type: string; name?: string; arguments?: string };
        return name === undefined ? type : [name, JSON.parse(given ?? '')];
      });
    const expected = ['message', ['add', { a: 1, b: 2 }], ['now', {}]];
    const whole = await openai.responses.create(request);
    expect([whole.status, namesOf(whole.output)]).toEqual(['completed', expected]);
    expect(whole.output_text.trim()).toBe('Let me see.');
    const streamed = await openai.responses.stream(request).finalResponse();
    expect([streamed.status, namesOf(streamed.output)]).toEqual(['completed', expected]);
    expect(streamed.output_text).toBe(whole.output_text);
  });

  it('takes back what it answered, thoughts included, as one message of the assistant', async () => {
    const { text } = TWO_CALLS['hermes'];
    const chats: Chat[] = [];
    const chatTemplate: ChatTemplate = {
      render: (chat) => {
        chats.push(chat);
        return Promise.resolve('x');
      },
    };
    const { openai } = await scripted([`<think>hm</think>Let me see. ${text}`, '<think>so</think>3', '.'], {
      chatTemplate,
      toolCallParser: 'hermes',
      reasoningParser: 'qwen3',
    });
    const tools = [{ type: 'function' as const, name: 'add', strict: null, parameters: { type: 'object' } }];
    const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: '1 + 2?' }];
    const first = await openai.responses.create({ model: MODEL, input, tools });
    expect(first.output.map(({ type }) => type)).toEqual([
      'reasoning',
      'message',
      'function_call',
      'function_call',
    ]);
    input.push(...(first.output as OpenAI.Responses.ResponseInputItem[]));
    for (const item of first.output)
      if (item.type === 'function_call')
        input.push({ type: 'function_call_output', call_id: item.call_id, output: '3' });
    const second = await openai.responses.create({ model: MODEL, input, tools });
    input.push(...(second.output as OpenAI.Responses.ResponseInputItem[]), { role: 'user', content: 'Yes?' });
    await openai.responses.create({ model: MODEL, input, tools });
    expect(
      chats[2].messages.map(({ role, content, reasoning, toolCalls }) => [
        role,
        content.trim(),
        reasoning,
        toolCalls?.length,
      ]),
    ).toEqual([
      ['user', '1 + 2?', undefined, undefined],
      ['assistant', 'Let me see.', 'hm', 2],
      ['tool', '3', undefined, undefined],
      ['tool', '3', undefined, undefined],
      ['assistant', '3', 'so', undefined],
      ['user', 'Yes?', undefined, undefined],
    ]);
    // A summary of another server's; and nothing, where the text was kept elsewhere.
    const summary = [{ type: 'summary_text' as const, text: 'long ago' }];
    await openai.responses.create({
      model: MODEL,
      input: [
        { type: 'reasoning', id: 'a', summary },
        { role: 'assistant', content: 'So.' },
        { type: 'reasoning', id: 'b', summary: [] },
        { role: 'user', content: 'Yes?' },
      ],
    });
    expect(chats[3].messages.map(({ content, reasoning }) => [content, reasoning])).toEqual([
      ['So.', 'long ago'],
      ['Yes?', undefined],
    ]);
  });

  it('refuses what it has not, by the names that its clients know', async () => {
    const { post } = await client();
    const refused: [object, string, string][] = [
      [{ input: PROMPT, store: true }, 'store', 'unsupported_parameter'],
      [{ input: PROMPT, previous_response_id: 'resp_1' }, 'previous_response_id', 'unsupported_parameter'],
      [{ input: PROMPT, max_output_tokens: 0 }, 'max_output_tokens', 'invalid_value'],
      [{ input: PROMPT, text: { format: { type: 'json_object' } } }, 'text.format', 'unsupported_parameter'],
      [{ input: [] }, 'input', 'invalid_value'],
      [{ input: [{ type: 'message', role: 'user', content: 7 }] }, 'input', 'invalid_value'],
      [{ input: [{ type: 'item_reference', id: 'x' }] }, 'input[0].type', 'unsupported_parameter'],
      [
        { input: [{ role: 'user', content: [{ type: 'input_image' }] }] },
        'input[0].content[0].type',
        'unsupported_parameter',
      ],
      [{ input: PROMPT, tools: [{ type: 'web_search' }] }, 'tools', 'unsupported_parameter'],
      [{ messages: [] }, 'messages', 'unknown_parameter'],
    ];
    for (const [body, param, code] of refused) {
      const response = await post('/v1/responses', body);
      const { error } = (await response.json()) as {
        error: { param: string; code: string; message: string };
      };
      expect([response.status, error.param, error.code]).toEqual([400, param, code]);
      expect(error.message).not.toMatch(/max_completion_tokens|response_format/);
      if (param === 'input[0].type')
        expect(error.message).toMatch(/send the items themselves \(store: false\)/);
    }
  });
});
