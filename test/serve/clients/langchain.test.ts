// The client of LangChain.
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Line, scripted, TWO_CALLS } from '../support/scripted.js';
import { MODEL } from '../support/served.js';

const PERSON = z.object({ name: z.string(), age: z.int() });
const ADD = tool(({ a, b }) => String(a + b), {
  name: 'add',
  description: 'adds',
  schema: z.object({ a: z.int(), b: z.int() }),
});
const NOW = tool(() => 'noon', { name: 'now', description: 'the time', schema: z.object({}) });

async function langchain(lines: readonly Line[], marks?: string) {
  const { baseURL, executor } = await scripted(lines, marks === undefined ? {} : { marks });
  const configuration = { baseURL };
  return { chat: new ChatOpenAI({ model: MODEL, apiKey: 'none', maxRetries: 0, configuration }), executor };
}

describe('LangChain', () => {
  it('invokes and streams', async () => {
    const { chat } = await langchain(['It is 3.', 'It is 3.']);
    expect((await chat.invoke('1 + 2?')).content).toBe('It is 3.');
    let text = '';
    for await (const chunk of await chat.stream('1 + 2?')) text += chunk.content as string;
    expect(text).toBe('It is 3.');
  });

  it.each(Object.keys(TWO_CALLS))('calls bound tools of a model that answers as %s', async (form) => {
    const { marks, text } = TWO_CALLS[form];
    const last = form === 'openai' ? '<|channel|>final<|message|>It is 3.' : 'It is 3.';
    const { chat } = await langchain([text, last], marks);
    const bound = chat.bindTools([ADD, NOW]);
    const asked = new HumanMessage('1 + 2?');
    const called = await bound.invoke([asked]);
    expect(called.tool_calls?.map(({ name, args }) => [name, args])).toEqual([
      ['add', { a: 1, b: 2 }],
      ['now', {}],
    ]);
    const answers = [ADD, NOW].map(
      (each, i) =>
        new ToolMessage({
          content: i === 0 ? '3' : 'noon',
          name: each.name,
          tool_call_id: called.tool_calls![i].id!,
        }),
    );
    expect((await bound.invoke([asked, called, ...answers])).content).toBe('It is 3.');
  });

  it.each([
    ['jsonSchema', '{"name": "Ada", "age": 36}'],
    ['functionCalling', '{"name": "Ada", "age": 36}'],
    ['jsonMode', '{"name": "Ada", "age": 36}'],
  ] as const)('gives structured output by %s', async (method, line) => {
    const { chat, executor } = await langchain([line]);
    const structured = chat.withStructuredOutput(PERSON, { name: 'person', method });
    expect(await structured.invoke('Who?')).toEqual({ name: 'Ada', age: 36 });
    expect(executor.formats[0]?.type).toBe(method === 'jsonMode' ? 'json_object' : 'json_schema');
  });
});
