// The AI SDK.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, stepCountIs, streamObject, streamText, tool } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Line, scripted, TWO_CALLS } from '../support/scripted.js';
import { MODEL } from '../support/served.js';

const PERSON = z.object({ name: z.string(), age: z.int() });
const ADA = '{"name": "Ada", "age": 36}';

async function sdk(lines: readonly Line[], marks?: string) {
  const { baseURL, executor } = await scripted(lines, marks === undefined ? {} : { marks });
  const provider = createOpenAICompatible({ name: 'blockstep', baseURL, supportsStructuredOutputs: true });
  return { model: provider(MODEL), executor };
}

const TOOLS = {
  add: tool({
    description: 'adds',
    inputSchema: z.object({ a: z.int(), b: z.int() }),
    execute: ({ a, b }) => a + b,
  }),
  now: tool({ description: 'the time', inputSchema: z.object({}), execute: () => 'noon' }),
};

describe('the AI SDK', () => {
  it('generates and streams text, and what the model thought', async () => {
    const text = '<think>hm</think>It is 3.';
    const { model } = await sdk([text, text], '<think></think>');
    const whole = await generateText({ model, prompt: '1 + 2?' });
    expect([whole.text, whole.reasoningText, whole.finishReason]).toEqual(['It is 3.', 'hm', 'stop']);
    const streamed = streamText({ model, prompt: '1 + 2?' });
    expect([await streamed.text, await streamed.reasoningText]).toEqual(['It is 3.', 'hm']);
  });

  it.each(Object.keys(TWO_CALLS))('calls tools of a model that answers as %s', async (form) => {
    const { marks, text } = TWO_CALLS[form];
    const lines = [text, form === 'openai' ? '<|channel|>final<|message|>It is 3.' : 'It is 3.'];
    const { model } = await sdk([...lines, ...lines], marks);
    const asked = { model, tools: TOOLS, prompt: '1 + 2?', stopWhen: stepCountIs(3) };
    const { text: said, steps } = await generateText(asked);
    expect(said).toBe('It is 3.');
    expect(steps[0].toolResults.map(({ output }) => output)).toEqual([3, 'noon']);
    const streamed = streamText(asked);
    expect(await streamed.text).toBe('It is 3.');
    expect((await streamed.steps)[0].toolResults.map(({ output }) => output)).toEqual([3, 'noon']);
  });

  it('makes a tool be called', async () => {
    const { model, executor } = await sdk(['[{"name": "now", "parameters": {}}]', '{"a": 1, "b": 2}']);
    const any = await generateText({ model, tools: TOOLS, prompt: 'a', toolChoice: 'required' });
    expect(any.toolResults.map(({ output }) => output)).toEqual(['noon']);
    const toolChoice = { type: 'tool' as const, toolName: 'add' as const };
    const one = await generateText({ model, tools: TOOLS, prompt: 'a', toolChoice });
    expect(one.toolResults.map(({ output }) => output)).toEqual([3]);
    expect(executor.formats).toMatchObject([{ type: 'json_schema' }, { type: 'json_schema' }]);
  });

  it('generates and streams objects', async () => {
    const { model, executor } = await sdk([ADA, ADA]);
    const { object } = await generateObject({ model, schema: PERSON, prompt: 'Who?' });
    expect(object).toEqual({ name: 'Ada', age: 36 });
    const streamed = streamObject({ model, schema: PERSON, prompt: 'Who?' });
    for await (const _ of streamed.partialObjectStream);
    expect(await streamed.object).toEqual({ name: 'Ada', age: 36 });
    expect(executor.formats).toMatchObject([{ type: 'json_schema' }, { type: 'json_schema' }]);
  });
});
