// The AI SDK and LangChain by way of `/v1/responses`.
import { createOpenAI } from '@ai-sdk/openai';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Line, scripted, TWO_CALLS } from '../support/scripted.js';
import { MODEL } from '../support/served.js';

const PERSON = z.object({ name: z.string(), age: z.int() });
const ADA = '{"name": "Ada", "age": 36}';
const PAIR = z.object({ a: z.int(), b: z.int() });
const { marks, text: CALLS } = TWO_CALLS['hermes'];

async function sdk(lines: readonly Line[]) {
  const { baseURL, executor } = await scripted(lines, { marks: `${marks}<think></think>` });
  const model = createOpenAI({ baseURL, apiKey: 'none' })(MODEL);
  // The server keeps nothing of an answer.
  return { asked: { model, providerOptions: { openai: { store: false } } }, executor };
}

describe('the AI SDK by way of responses', () => {
  it('generates and streams text, without what the model thought: it reads summaries alone', async () => {
    const text = '<think>hm</think>It is 3.';
    const { asked } = await sdk([text, text]);
    const whole = await generateText({ ...asked, prompt: '1 + 2?' });
    expect([whole.text, whole.reasoningText, whole.finishReason]).toEqual(['It is 3.', '', 'stop']);
    expect(whole.usage.outputTokens).toBeGreaterThan(1);
    const streamed = streamText({ ...asked, prompt: '1 + 2?' });
    expect([await streamed.text, await streamed.reasoningText]).toEqual(['It is 3.', '']);
  });

  it('calls tools in several steps, whole and streamed', async () => {
    const lines = [`Let me see. ${CALLS}`, 'It is 3.'];
    const { asked } = await sdk([...lines, ...lines]);
    const add = tool({ description: 'adds', inputSchema: PAIR, execute: ({ a, b }) => a + b });
    const now = tool({ description: 'the time', inputSchema: z.object({}), execute: () => 'noon' });
    const all = { ...asked, tools: { add, now }, prompt: '1 + 2?', stopWhen: stepCountIs(3) };
    const { text, steps } = await generateText(all);
    expect([text, steps[0].toolResults.map(({ output }) => output)]).toEqual(['It is 3.', [3, 'noon']]);
    const streamed = streamText(all);
    expect(await streamed.text).toBe('It is 3.');
    expect((await streamed.steps)[0].toolResults.map(({ output }) => output)).toEqual([3, 'noon']);
  });

  it('generates objects', async () => {
    const { asked, executor } = await sdk([ADA]);
    const { object } = await generateObject({ ...asked, schema: PERSON, prompt: 'Who?' });
    expect(object).toEqual({ name: 'Ada', age: 36 });
    expect(executor.formats).toMatchObject([{ type: 'json_schema' }]);
  });
});

describe('LangChain by way of responses', () => {
  async function langchain(lines: readonly Line[]) {
    const { baseURL } = await scripted(lines, { marks });
    return new ChatOpenAI({
      model: MODEL,
      apiKey: 'none',
      maxRetries: 0,
      configuration: { baseURL },
      useResponsesApi: true,
      zdrEnabled: true,
    });
  }

  it('invokes and streams', async () => {
    const chat = await langchain(['It is 3.', 'It is 3.']);
    expect((await chat.invoke('1 + 2?')).text).toBe('It is 3.');
    let text = '';
    for await (const chunk of await chat.stream('1 + 2?')) text += chunk.text;
    expect(text).toBe('It is 3.');
  });

  it('calls bound tools', async () => {
    const chat = await langchain([CALLS, 'It is 3.']);
    const add = langchainTool(({ a, b }) => String(a + b), {
      name: 'add',
      description: 'adds',
      schema: PAIR,
    });
    const now = langchainTool(() => 'noon', { name: 'now', description: 'the time', schema: z.object({}) });
    const bound = chat.bindTools([add, now]);
    const asked = new HumanMessage('1 + 2?');
    const called = await bound.invoke([asked]);
    expect(called.tool_calls?.map(({ name, args }) => [name, args])).toEqual([
      ['add', { a: 1, b: 2 }],
      ['now', {}],
    ]);
    const answers = ['3', 'noon'].map(
      (content, i) => new ToolMessage({ content, tool_call_id: called.tool_calls![i].id! }),
    );
    expect((await bound.invoke([asked, called, ...answers])).text).toBe('It is 3.');
  });

  it('gives structured output', async () => {
    const chat = await langchain([ADA]);
    const structured = chat.withStructuredOutput(PERSON, { name: 'person', method: 'jsonSchema' });
    expect(await structured.invoke('Who?')).toEqual({ name: 'Ada', age: 36 });
  });
});
