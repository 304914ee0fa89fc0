// Chats with tools over HTTP.
import { describe, expect, it } from 'vitest';
import { openChatTemplate } from '../../../src/serve/index.js';
import { CHAT_TEMPLATE } from '../../support/gguf/random-model.js';
import { answerOf, MODEL, serve } from '../support/served.js';
import { BYTES, Sayer } from './small-model.js';

const USER = { role: 'user', content: 'what?' };
const TOOL = { type: 'function', function: { name: 'add', description: 'adds', parameters: {} } };
const CALL = { id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a": 1}' } };
const CALLING = { role: 'assistant', content: null, tool_calls: [CALL] };

async function served(source: string | null = CHAT_TEMPLATE) {
  const chatTemplate = await openChatTemplate(source, { beginText: '<s>' });
  const executor = new Sayer([104, 105, 258]);
  const model = { id: MODEL, vocabulary: BYTES, chatTemplate };
  const { post } = await serve({ engine: { executor }, serve: { model } });
  const promptOf = async (body: object): Promise<string> => {
    const { tokens } = await answerOf(post('/tokenize', body));
    return tokens.map((token) => BYTES.specialText(token)).join('');
  };
  return { post, promptOf, executor };
}

describe('a chat with a model that has a template', () => {
  it('is written by it, with one begin token, and ends with the message', async () => {
    const { post, promptOf, executor } = await served();
    const prompt = await promptOf({ messages: [USER] });
    expect(prompt).toBe('<s><|im_start|>user\nwhat?<|im_end|>\n<|im_start|>assistant\n');
    const body = await answerOf(post('/v1/chat/completions', { messages: [USER], max_tokens: 9 }));
    expect(body.choices[0]).toMatchObject({
      message: { role: 'assistant', content: 'hi' },
      finish_reason: 'stop',
      stop_reason: 258,
    });
    // The begin token is one of 259, and not three letters.
    expect(executor.prompts).toEqual([prompt.length - 2]);
    const unfinished = await promptOf({ messages: [USER], add_generation_prompt: false });
    expect(unfinished).toBe('<s><|im_start|>user\nwhat?<|im_end|>\n');
  });

  it('goes on behind the end of a message, if the client ignores it', async () => {
    const { post } = await served();
    const ignoring = { messages: [USER], max_tokens: 7, ignore_eos: true };
    const body = await answerOf(post('/v1/chat/completions', ignoring));
    expect(body.choices[0]).toMatchObject({ message: { content: 'hihih' }, finish_reason: 'length' });
  });

  it('may have tools, their calls and their answers', async () => {
    const { promptOf } = await served();
    const answer = { role: 'tool', content: '3', tool_call_id: 'c1' };
    const text = await promptOf({ messages: [USER, CALLING, answer], tools: [TOOL] });
    expect(text).toContain('"name": "add", "description": "adds"');
    expect(text).toContain('<call>{"name": "add", "arguments": {"a": 1}}</call>');
    expect(text).toContain('<|im_start|>tool\n3<|im_end|>');
  });

  it('is the same chat as a response, by other names', async () => {
    const { post, executor } = await served();
    const chat = {
      messages: [
        { role: 'system', content: 'Add.' },
        USER,
        CALLING,
        { role: 'tool', content: '3', tool_call_id: 'c1' },
      ],
      tools: [TOOL],
      max_tokens: 2,
    };
    const input = [
      USER,
      { type: 'reasoning', id: 'r1', summary: [] },
      { type: 'function_call', id: 'f1', status: 'completed', call_id: 'c1', ...CALL.function },
      { type: 'function_call_output', call_id: 'c1', output: '3' },
    ];
    const response = {
      instructions: 'Add.',
      input,
      tools: [{ type: 'function', ...TOOL.function, strict: undefined }],
      tool_choice: 'auto',
      max_output_tokens: 2,
    };
    expect((await post('/v1/chat/completions', chat)).status).toBe(200);
    expect((await post('/v1/responses', response)).status).toBe(200);
    const [ofChat, ofResponse] = executor.prompts;
    expect(ofChat).toBeGreaterThan(150);
    expect(ofResponse).toBe(ofChat);
  });

  it.each<[unknown]>([[undefined], [null], [''], [' '], ['null'], ['{}'], [{}]])(
    'may have calls without arguments: %j',
    async (given) => {
      const { promptOf } = await served();
      const call = { ...CALL, function: { name: 'add', arguments: given } };
      const messages = [USER, { role: 'assistant', content: null, tool_calls: [call] }];
      expect(await promptOf({ messages })).toContain('<call>{"name": "add", "arguments": {}}</call>');
    },
  );

  it('may have functions as the API of old has them', async () => {
    const { promptOf } = await served();
    const answer = { role: 'function', name: 'add', content: '3' };
    const called = { role: 'assistant', content: null, function_call: CALL.function };
    const text = await promptOf({ messages: [USER, called, answer] });
    expect(text).toContain('<call>{"name": "add", "arguments": {"a": 1}}</call>');
    expect(text).toContain('<|im_start|>tool\n3<|im_end|>');
  });

  it.each(['reasoning_content', 'reasoning'])('may have what an assistant thought: %s', async (name) => {
    const { promptOf } = await served(
      '{% for m in messages %}[{{ m.reasoning_content }}|{{ m.reasoning }}|{{ m.content }}]{% endfor %}',
    );
    const messages = [USER, { role: 'assistant', content: 'yes', [name]: 'hm' }, USER];
    expect(await promptOf({ messages })).toContain('[hm|hm|yes]');
    const silent = [USER, { role: 'assistant', [name]: 'hm' }, USER];
    expect(await promptOf({ messages: silent })).toContain('[hm|hm|]');
  });

  it('is told how much the model is to think', async () => {
    const asks = '{{ messages[0].content }} {{ reasoning_effort }}';
    const { promptOf } = await served(asks);
    expect(await promptOf({ messages: [USER], reasoning_effort: 'high' })).toContain(`${USER.content} high`);
    const both = { reasoning_effort: 'high', chat_template_kwargs: { reasoning_effort: 'low' } };
    expect(await promptOf({ messages: [USER], ...both })).toContain(`${USER.content} low`);
    const bad = await (await served(asks)).post('/v1/chat/completions', {
      messages: [USER],
      reasoning_effort: 'much',
    });
    const { error } = await answerOf(bad);
    expect([bad.status, error.param, error.code]).toEqual([400, 'reasoning_effort', 'invalid_value']);
    expect(error.message).toContain('"much"');
    const response = await (await served(asks)).post('/v1/responses', {
      input: 'a',
      reasoning: { effort: 'much' },
    });
    expect((await answerOf(response)).error.param).toBe('reasoning.effort');
  });

  it('is told not to think at all by a template that knows only that', async () => {
    const { promptOf, post } = await served('{{ messages[0].content }} {{ enable_thinking }}');
    expect(await promptOf({ messages: [USER], reasoning_effort: 'none' })).toContain('False');
    const { status } = await post('/v1/chat/completions', { messages: [USER], reasoning_effort: 'low' });
    expect(status).toBe(400);
  });

  it('takes tools that it may not call for none', async () => {
    const { post } = await served();
    const say = async (body: object) => {
      const { status } = await post('/v1/chat/completions', { messages: [USER], max_tokens: 2, ...body });
      return status;
    };
    expect(await say({ tools: [TOOL], tool_choice: 'none' })).toBe(200);
    expect(await say({ tools: [TOOL], tool_choice: 'auto', parallel_tool_calls: true })).toBe(200);
    expect(await say({ chat_template_kwargs: { enable_thinking: false } })).toBe(200);
  });

  it.each<[string, object, string]>([
    ['no messages', {}, 'messages'],
    [
      'a part without a type',
      { messages: [{ role: 'user', content: [{ text: 'a' }] }] },
      'messages[0].content[0].type',
    ],
    ['tools that are none', { messages: [USER], tools: ['add'] }, 'tools[0]'],
    ['a tool without a name', { messages: [USER], tools: [{ type: 'function', function: {} }] }, 'tools[0]'],
    ['a tool of another kind', { messages: [USER], tools: [{ ...TOOL, type: 'retrieval' }] }, 'tools[0]'],
    [
      'a tool that must be called',
      { messages: [USER], tools: [TOOL], tool_choice: 'required' },
      'tool_choice',
    ],
    ['arguments for nothing', { messages: [USER], chat_template_kwargs: 5 }, 'chat_template_kwargs'],
    ['a user who calls', { messages: [{ ...USER, tool_calls: [CALL] }] }, 'messages[0].tool_calls'],
    [
      'a call without a function',
      { messages: [{ ...CALLING, tool_calls: [{ id: 'x' }] }] },
      'messages[0].tool_calls[0].function',
    ],
    [
      'arguments that are no JSON',
      { messages: [{ ...CALLING, tool_calls: [{ function: { name: 'add', arguments: '{' } }] }] },
      'messages[0].tool_calls[0].function.arguments',
    ],
    ['an assistant who says nothing', { messages: [{ role: 'assistant' }] }, 'messages[0].content'],
    [
      'a function that users call',
      { messages: [{ ...USER, function_call: CALL.function }] },
      'messages[0].function_call',
    ],
    [
      'a tool that is none of the tools',
      { messages: [USER], tools: [TOOL], tool_choice: { type: 'function', function: { name: 'sub' } } },
      'tool_choice.function.name',
    ],
    [
      'a tool that must be called, without tools',
      { messages: [USER], tool_choice: 'required' },
      'tool_choice',
    ],
    ['a choice that is none', { messages: [USER], tools: [TOOL], tool_choice: 'any' }, 'tool_choice'],
    [
      'parameters that are no schema',
      { messages: [USER], tools: [{ type: 'function', function: { name: 'add', parameters: [] } }] },
      'tools[0].function.parameters',
    ],
  ])('is refused with %s', async (_, body, param) => {
    const { post } = await served();
    const response = await post('/v1/chat/completions', body);
    expect([response.status, (await answerOf(response)).error.param]).toEqual([400, param]);
  });

  it.each([
    ["{{ raise_exception('roles must alternate') }}", /refuses: roles must alternate$/],
    [null, /refuses: it has none; send the whole prompt to \/v1\/completions$/],
    ['{% if', /refuses: it cannot be read/],
  ])('is refused with the words of its template: %j', async (source, says) => {
    const { post } = await served(source);
    const response = await post('/v1/chat/completions', { messages: [USER] });
    const { error } = await answerOf(response);
    expect(response.status).toBe(400);
    expect(error).toMatchObject({ param: 'messages', code: 'chat_template' });
    expect(error.message).toMatch(says);
    // Completions need no template, and a begin token alone is no prompt.
    const { error: empty } = await answerOf(post('/v1/completions', { prompt: '' }));
    expect([empty.param, empty.code]).toEqual(['prompt', 'invalid_value']);
    expect((await post('/v1/completions', { prompt: 'a', max_tokens: 2 })).status).toBe(200);
  });
});

describe('a chat with a model that has none', () => {
  it.each<[object, string]>([
    [{ messages: [USER], tools: [TOOL] }, 'tools'],
    [{ messages: [USER], chat_template_kwargs: { a: 1 } }, 'chat_template_kwargs'],
    [{ messages: [USER], reasoning_effort: 'low' }, 'reasoning_effort'],
    [{ messages: [USER, CALLING] }, 'messages[1].tool_calls'],
    [{ messages: [{ role: 'tool', content: '3' }] }, 'messages[0].role'],
  ])('has no tools: %j', async (body, param) => {
    const { post } = await serve();
    const response = await post('/v1/chat/completions', body);
    const { error } = await answerOf(response);
    expect([response.status, error.param, error.code]).toEqual([400, param, 'unsupported_parameter']);
  });
});

describe('routes of other APIs', () => {
  it('are refused by name', async () => {
    const { post } = await serve();
    for (const path of ['/v1/embeddings', '/v1/rerank', '/v1/score']) {
      const response = await post(path, { input: 'a' });
      expect(response.status).toBe(404);
      const { error } = await answerOf(response);
      expect(error).toMatchObject({ code: 'unsupported_route' });
      expect(error.message).toBe(
        `${path} is not served: the model generates text, and makes no embeddings or scores; ask another server for it`,
      );
    }
  });
});
