// OpenAI's client: its tools, formats, and reasoning.
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { scripted, TWO_CALLS } from '../support/scripted.js';
import { MODEL } from '../support/served.js';

const SUM = z.object({ a: z.int(), b: z.int() });
const USER = { role: 'user' as const, content: '1 + 2? And what time is it?' };
const ADD = {
  type: 'function' as const,
  function: {
    name: 'add',
    description: 'adds',
    parameters: {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'integer' } },
      required: ['a', 'b'],
    },
  },
};
const NOW = { type: 'function' as const, function: { name: 'now', description: 'the time' } };
const CHAT = { model: MODEL, messages: [USER], tools: [ADD, NOW] };
const named = (calls: readonly { function: { name: string; arguments: string } }[] = []) =>
  calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
const BOTH = [
  ['add', { a: 1, b: 2 }],
  ['now', {}],
];

describe('OpenAI’s client calls tools', () => {
  it.each(Object.keys(TWO_CALLS))('of a model that answers as %s, whole and streamed', async (form) => {
    const { marks, text } = TWO_CALLS[form];
    const { openai } = await scripted([text, text], { marks });
    const whole = await openai.chat.completions.create(CHAT);
    const { message, finish_reason } = whole.choices[0];
    expect([message.content, finish_reason]).toEqual([null, 'tool_calls']);
    expect(named(message.tool_calls as never)).toEqual(BOTH);
    const ids = message.tool_calls?.map(({ id }) => id) ?? [];
    expect(new Set(ids).size).toBe(2);
    if (form === 'mistral') for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9]{9}$/);
    const stream = openai.chat.completions.stream(CHAT);
    const streamed = (await stream.finalChatCompletion()).choices[0];
    expect([streamed.message.content ?? '', streamed.finish_reason]).toEqual(['', 'tool_calls']);
    expect(named(streamed.message.tool_calls as never)).toEqual(BOTH);
  });

  it('one alone, if it wants no more', async () => {
    const { text } = TWO_CALLS['hermes'];
    const { openai } = await scripted([text, text]);
    const asked = { ...CHAT, parallel_tool_calls: false };
    const { choices } = await openai.chat.completions.create(asked);
    expect(named(choices[0].message.tool_calls as never)).toEqual(BOTH.slice(0, 1));
    const streamed = await openai.chat.completions.stream(asked).finalChatCompletion();
    expect(named(streamed.choices[0].message.tool_calls as never)).toEqual(BOTH.slice(0, 1));
  });

  it('and gets text where it names no tools, or calls may not be made', async () => {
    const { text } = TWO_CALLS['hermes'];
    const { openai } = await scripted([text, text]);
    for (const asked of [
      { model: MODEL, messages: [USER] },
      { ...CHAT, tool_choice: 'none' as const },
    ]) {
      const { choices } = await openai.chat.completions.create(asked);
      expect(choices[0]).toMatchObject({ message: { content: text }, finish_reason: 'stop' });
    }
  });

  it('and is refused a format beside tools that may be called', async () => {
    const { openai } = await scripted(['{}']);
    const asked = { ...CHAT, response_format: { type: 'json_object' as const } };
    await expect(openai.chat.completions.create(asked)).rejects.toMatchObject({
      status: 400,
      param: 'response_format',
    });
    // A call that must be made is the whole answer, whatever its format would be.
    const only = { type: 'function' as const, function: { name: 'now' } };
    const { choices } = await openai.chat.completions.create({ ...asked, tool_choice: only });
    expect(named(choices[0].message.tool_calls as never)).toEqual([['now', {}]]);
  });

  it('and gets what was cut off as text', async () => {
    const { openai } = await scripted([TWO_CALLS['hermes'].text, '{"a": 1, "b": 2}']);
    const { choices } = await openai.chat.completions.create({ ...CHAT, max_tokens: 8 });
    expect(choices[0].finish_reason).toBe('length');
    expect(choices[0].message.content).toMatch(/^<tool_call>/);
    const only = { type: 'function' as const, function: { name: 'add' } };
    const cut = await openai.chat.completions.create({ ...CHAT, tool_choice: only, max_tokens: 4 });
    expect(cut.choices[0]).toMatchObject({
      finish_reason: 'length',
      message: { content: expect.stringMatching(/^\{"a": */) },
    });
  });

  it('by runTools, whole and streamed', async () => {
    const lines = [TWO_CALLS['hermes'].text, 'It is 3, at noon.'];
    const { openai } = await scripted([...lines, ...lines]);
    const seen: unknown[] = [];
    const tools = [
      zodFunction({
        name: 'add',
        description: 'adds',
        parameters: SUM,
        function: ({ a, b }) => {
          seen.push([a, b]);
          return String(a + b);
        },
      }),
      zodFunction({ name: 'now', description: 'the time', parameters: z.object({}), function: () => 'noon' }),
    ];
    const request = { model: MODEL, messages: [USER], tools };
    expect(await openai.chat.completions.runTools(request).finalContent()).toBe('It is 3, at noon.');
    const streamed = openai.chat.completions.runTools({ ...request, stream: true });
    expect(await streamed.finalContent()).toBe('It is 3, at noon.');
    expect(seen).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  it('that it must call: one by its name, or any', async () => {
    const { openai, executor } = await scripted([
      '{"a": 1, "b": 2}',
      '[{"name": "add", "parameters": {"a": 1, "b": 2}}, {"name": "now", "parameters": {}}]',
      '{"a": 1, "b": 2}',
    ]);
    const only = { type: 'function' as const, function: { name: 'add' } };
    const one = await openai.chat.completions.create({ ...CHAT, tool_choice: only });
    expect(one.choices[0].finish_reason).toBe('tool_calls');
    expect(named(one.choices[0].message.tool_calls as never)).toEqual(BOTH.slice(0, 1));
    const any = await openai.chat.completions.create({ ...CHAT, tool_choice: 'required' });
    expect(named(any.choices[0].message.tool_calls as never)).toEqual(BOTH);
    const stream = openai.chat.completions.stream({ ...CHAT, tool_choice: only });
    const { choices } = await stream.finalChatCompletion();
    expect(named(choices[0].message.tool_calls as never)).toEqual(BOTH.slice(0, 1));
    expect(executor.formats[0]).toEqual({ type: 'json_schema', schema: ADD.function.parameters });
    expect(executor.formats[1]).toMatchObject({ schema: { type: 'array', minItems: 1 } });
  });

  it('and parses what is held to a schema of Zod', async () => {
    const { openai } = await scripted(['{"a": 1, "b": 2}']);
    const format = zodResponseFormat(SUM, 'sum');
    const { choices } = await openai.chat.completions.parse({
      model: MODEL,
      messages: [USER],
      response_format: format,
    });
    expect(choices[0].message.parsed).toEqual({ a: 1, b: 2 });
  });

  it('and tells what the model thought apart', async () => {
    const text = '<think>\nhm\n</think>\n\nIt is 3.';
    const { openai } = await scripted([text, text], { marks: '<think></think>' });
    const { choices } = await openai.chat.completions.create({ model: MODEL, messages: [USER] });
    expect(choices[0].message).toMatchObject({ content: 'It is 3.', reasoning_content: 'hm' });
    const read = { content: '', reasoning_content: '' };
    const request = { model: MODEL, messages: [USER], stream: true as const };
    for await (const chunk of await openai.chat.completions.create(request)) {
      const delta = chunk.choices[0]?.delta as Partial<typeof read>;
      read.content += delta.content ?? '';
      read.reasoning_content += delta.reasoning_content ?? '';
    }
    expect(read).toEqual({ content: 'It is 3.', reasoning_content: 'hm' });
  });
});
