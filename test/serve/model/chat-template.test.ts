// Templates in Jinja: roles, tools, arguments, and chats that they refuse.
import { describe, expect, it } from 'vitest';
import type { Chat, ChatMessage } from '../../../src/serve/index.js';
import { openChatTemplate } from '../../../src/serve/index.js';
import { CHAT_TEMPLATE } from '../../support/gguf/random-model.js';

const say = (role: ChatMessage['role'], content: string): ChatMessage => ({ role, content, name: undefined });
const chat = (messages: readonly ChatMessage[], rest: Partial<Chat> = {}): Chat => ({
  messages,
  tools: null,
  beginsAnswer: true,
  templateArguments: {},
  ...rest,
});
const render = async (source: string | null, asked: Chat): Promise<string> =>
  (await openChatTemplate(source, { beginText: '<s>', endText: '</s>' })).render(asked);

describe('a chat template', () => {
  it('writes messages of all roles, and begins the answer', async () => {
    const messages = [
      say('system', 'Be brief.'),
      say('user', 'Hi'),
      say('assistant', 'Ho'),
      say('user', 'So?'),
    ];
    expect(await render(CHAT_TEMPLATE, chat(messages))).toBe(
      '<s><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(await render(CHAT_TEMPLATE, chat([say('user', 'Hi')], { beginsAnswer: false }))).toBe(
      '<s><|im_start|>user\nHi<|im_end|>\n',
    );
  });

  it('writes tools, their calls with arguments as an object, and their answers', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'add', parameters: { type: 'object' } } }];
    const messages: ChatMessage[] = [
      say('user', '1 + 2?'),
      { ...say('assistant', ''), toolCalls: [{ id: 'c1', name: 'add', arguments: { a: 1, b: 2 } }] },
      { ...say('tool', '3'), name: 'add', toolCallId: 'c1' },
    ];
    const text = await render(CHAT_TEMPLATE, chat(messages, { tools }));
    expect(text).toContain(
      'Tools: [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]',
    );
    expect(text).toContain('<call>{"name": "add", "arguments": {"a": 1, "b": 2}}</call><|im_end|>');
    expect(text).toContain('<|im_start|>tool\n3<|im_end|>');
    const ids =
      '{% for m in messages %}{{ m.role }}:{{ m.name }}:{{ m.tool_call_id }}:{{ m.content }}{{ m.tool_calls }};{% endfor %}';
    expect(await render(ids, chat(messages))).toMatch(/^user:::1 \+ 2\?;assistant:::.+;tool:add:c1:3;$/);
  });

  it('is given no tools where there are none', async () => {
    expect(await render('{{ tools is none }}{{ tools is defined }}', chat([]))).toBe('TrueTrue');
  });

  it('is given the arguments of the client, which replace nothing of the chat', async () => {
    const source = '{{ enable_thinking }} {{ messages | length }} {{ bos_token }} {{ eos_token }}';
    const templateArguments = { enable_thinking: false, messages: 'mine', bos_token: 'mine' };
    expect(await render(source, chat([say('user', 'a')], { templateArguments }))).toBe('False 1 <s> </s>');
  });

  it.each([
    ['does not speak of them', '', 'system:be brief;user:hi;'],
    ['writes what they say', '{# a developer #}', 'developer:be brief;user:hi;'],
    [
      'leaves out what they say',
      "{% set messages = messages | rejectattr('role', 'equalto', 'developer') %}",
      'system:be brief;user:hi;',
    ],
    [
      'refuses them',
      "{% if messages[0].role == 'developer' %}{{ raise_exception('no developers') }}{% endif %}",
      'system:be brief;user:hi;',
    ],
  ])(
    'has developers speak for the system, unless it writes what they say: one that %s',
    async (_, source, text) => {
      const lines = '{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}';
      expect(await render(source + lines, chat([say('developer', 'be brief'), say('user', 'hi')]))).toBe(
        text,
      );
    },
  );

  const ADD = { type: 'function' as const, function: { name: 'add', parameters: { type: 'object' } } };
  const call = (id: string) => ({ id, name: 'add', arguments: { a: 1 } });
  const CALLS: ChatMessage[] = [
    say('user', '1 + 2?'),
    { ...say('assistant', ''), toolCalls: [call('c1'), call('c2')] },
    { ...say('tool', '3'), toolCallId: 'c1' },
  ];
  it.each<[string, string, Chat]>([
    ['the tools', '{{ messages }}', chat([say('user', 'a')], { tools: [ADD] })],
    // A call that has the name of a tool says nothing of the others.
    ['the tools', '{{ messages }}', chat(CALLS, { tools: [ADD] })],
    [
      'the call of "add" in messages[1]',
      '{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}',
      chat(CALLS, { tools: [ADD] }),
    ],
    [
      'the call of "add" in messages[1]',
      '{% for m in messages %}{{ m.content }}{{ (m.tool_calls or [""])[0] }}{% endfor %}',
      chat(CALLS),
    ],
    [
      'messages[2], whose role is tool',
      "{% for m in messages if m.role != 'tool' %}{{ m }}{% endfor %}",
      chat(CALLS),
    ],
    [
      'messages[1], whose role is system',
      "{{ messages[0] }}{% for m in messages if m.role != 'system' %}{{ m }}{% endfor %}",
      chat([say('user', 'a'), say('system', 'b')]),
    ],
    [
      'messages[0], whose role is system',
      "{% for m in messages if m.role == 'user' %}{{ m }}{% endfor %}",
      chat([say('system', 'b')]),
    ],
  ])('refuses a chat of which it would leave something out: %s', async (what, source, asked) => {
    const template = await openChatTemplate(source);
    await expect(template.render(asked)).rejects.toThrow(
      `it leaves out ${what}, so the model would not see it`,
    );
    // Another template writes all of it.
    expect(await (await openChatTemplate('{{ tools }}{{ messages }}')).render(asked)).toContain('content');
  });

  it('may leave out what an assistant thought, and refuse calls that it does not know', async () => {
    const thinking =
      "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{{ m.tool_calls }}{% endfor %}";
    const messages = [...CALLS, say('assistant', 'hm</think>yes'), say('user', 'b')];
    expect(await render(thinking, chat(messages))).toMatch(/yesb$/);
    const knowing = "{% if messages[2].content != '3' %}{{ raise_exception('?') }}{% endif %}";
    expect(await render(knowing, chat(CALLS))).toBe('');
  });

  it('may use what templates of models use', async () => {
    const source = `{%- set ns = namespace(last='') -%}
{%- macro line(m) -%}[{{ m['role'] | upper }}] {{ m.content.strip() }}{%- endmacro -%}
{%- for m in messages if m.role != 'system' -%}
{{ line(m) }}{% if not loop.last %}|{% endif %}{% set ns.last = m.role %}
{%- endfor -%}({{ ns.last }}, {{ messages[0].content.split(' ')[-1] | trim }}, {{ strftime_now('%Y') | length }})`;
    const messages = [say('system', 'the end'), say('user', ' a '), say('assistant', 'b')];
    expect(await render(source, chat(messages))).toBe('[USER] a|[ASSISTANT] b(assistant, end, 4)');
  });

  it('says why it cannot write a chat', async () => {
    const template = await openChatTemplate("{{ raise_exception('only users may speak') }}");
    await expect(template.render(chat([say('user', 'a')]))).rejects.toThrow('only users may speak');
  });

  it.each([
    [null, /^it has none; send the whole prompt to \/v1\/completions$/],
    ['{% for m in messages %}', /^it cannot be read \(.+\); send the whole prompt/],
    ['{{ messages | nonsense }}', /nonsense/],
  ])('refuses every chat where it cannot be used: %j', async (source, says) => {
    const template = await openChatTemplate(source);
    await expect(template.render(chat([say('user', 'a')]))).rejects.toThrow(says);
  });
});
