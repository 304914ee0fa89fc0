// Tool calls in each format, whole, in pieces, broken, and endless.
import { describe, expect, it } from 'vitest';
import type { AnswerReader, AnswerSink } from '../../../src/serve/answers/answer-reader.js';
import { CallReader } from '../../../src/serve/answers/call-reader.js';
import type { CallForm } from '../../../src/serve/answers/forms/call-form.js';
import { HarmonyReader } from '../../../src/serve/answers/harmony-reader.js';
import { HARMONY, TOOL_CALL_PARSERS } from '../../../src/serve/answers/parsers.js';
import { readAlike, readPieces, TOOLS } from './read.js';

const opener = (parser: string) => {
  const form = TOOL_CALL_PARSERS[parser];
  return (sink: AnswerSink): AnswerReader =>
    form === HARMONY ? new HarmonyReader(sink, true) : new CallReader(form as CallForm, TOOLS, sink, false);
};
const read = (parser: string, text: string) => readAlike(opener(parser), text);
const ADD = ['add', { a: 1, b: 2 }];
const NOW = ['now', {}];

describe('calls of tools are read', () => {
  it.each<[string, string, string, unknown[]]>([
    ['hermes', '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>', '', [ADD]],
    [
      'hermes',
      'I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>\n<tool_call>{"name": "now"}</tool_call>\n',
      'I add.',
      [ADD, NOW],
    ],
    // The arguments as text, and an answer that ends without the last marker.
    ['hermes', '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}', '', [ADD]],
    ['hermes', '<tool_call>{"name": "now", "arguments": {}}</tool_call>\n\nDone. ', 'Done.', [NOW]],
    ['llama3_json', '{"name": "add", "parameters": {"a": 1, "b": 2}}', '', [ADD]],
    [
      'llama3_json',
      '<|python_tag|>{"name": "add", "parameters": {"a": 1, "b": 2}}; {"name": "now", "parameters": {}}',
      '',
      [ADD, NOW],
    ],
    [
      'llama3_json',
      '\n{"type": "function", "function": {"name": "add", "parameters": {"a": 1, "b": 2}}}',
      '',
      [ADD],
    ],
    [
      'mistral',
      '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now", "arguments": {}}]',
      '',
      [ADD, NOW],
    ],
    ['mistral', '[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}[TOOL_CALLS]now[ARGS]{}', '', [ADD, NOW]],
    ['mistral', 'So: [TOOL_CALLS]add{"a": 1, "b": 2}', 'So:', [ADD]],
    ['mistral', '[TOOL_CALLS]add[CALL_ID]123456789[ARGS]{"a": 1, "b": 2}', '', [ADD]],
    [
      'deepseek_v3',
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{"a": 1, "b": 2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      '',
      [ADD, NOW],
    ],
    [
      'deepseek_v31',
      'Yes.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 1, "b": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      'Yes.',
      [ADD],
    ],
    [
      'kimi_k2',
      '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1, "b": 2}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>',
      '',
      [ADD, NOW],
    ],
    [
      'openai',
      '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1, "b": 2}<|call|>',
      '',
      [ADD],
    ],
    [
      'openai',
      '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 1, "b": 2}',
      'I look.',
      [ADD],
    ],
    ['openai', '<|channel|>final<|message|>No call.', 'No call.', []],
    [
      'qwen3_coder',
      '<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n</tool_call>',
      '',
      [ADD],
    ],
    [
      'qwen3_coder',
      'Hm. <function=add><parameter=a>1</parameter><parameter=b>2</parameter></function><tool_call><function=now></function></tool_call>',
      'Hm.',
      [ADD, NOW],
    ],
    [
      'qwen3_coder',
      '<tool_call><function=write><parameter=text>\n12\n  </x>\n</parameter><parameter=lines>["a", 1]</parameter><parameter=last>False</parameter><parameter=options>{"a": null}</parameter><parameter=other>no</parameter></function></tool_call>',
      '',
      [['write', { text: '12\n  </x>', lines: ['a', 1], last: false, options: { a: null }, other: 'no' }]],
    ],
    [
      'seed_oss',
      'Hm.<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n<parameter=b>2</parameter>\n</function>\n</seed:tool_call>',
      'Hm.',
      [ADD],
    ],
    [
      'glm45',
      '<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n<arg_value>2</arg_value>\n</tool_call><tool_call>now</tool_call>',
      '',
      [ADD, NOW],
    ],
    [
      'glm45',
      '<tool_call>write<arg_key>text</arg_key><arg_value>5</arg_value><arg_key>last</arg_key><arg_value>null</arg_value></tool_call>',
      '',
      [['write', { text: '5', last: null }]],
    ],
    ['gemma4', '<|tool_call>call:add{a:1,b:2}<tool_call|>', '', [ADD]],
    [
      'gemma4',
      '<|tool_call>call:write{text:<|"|>a "b", {c}<|"|>,lines:[<|"|>x<|"|>,1.5,{y:true}],last:null}<tool_call|><|tool_call>call:now{}<tool_call|>',
      '',
      [['write', { text: 'a "b", {c}', lines: ['x', 1.5, { y: true }], last: null }], NOW],
    ],
    [
      'functiongemma',
      '<start_function_call>call:add{a:1,b:2,note:<escape>one, two<escape>}<end_function_call>',
      '',
      [['add', { a: 1, b: 2, note: 'one, two' }]],
    ],
    ['llama4_pythonic', '[add(a=1, b=2), now()]', '', [ADD, NOW]],
    ['llama4_pythonic', 'So: <|python_start|>[add(a=1, b=2)]<|python_end|>', 'So:', [ADD]],
    ['llama4_pythonic', '{"name": "add", "parameters": {"a": 1, "b": 2}}', '', [ADD]],
    [
      'lfm2',
      "<|tool_call_start|>[write(text='a \"b\"\\n\\x41\\'\\d', lines=[\"x\", -1.5e1, (1, None), {'k': True, 2: []}], last=False)]<|tool_call_end|>Done.",
      'Done.',
      [['write', { text: 'a "b"\nA\'\\d', lines: ['x', -15, [1, null], { k: true, 2: [] }], last: false }]],
    ],
    ['pythonic', '<|tool_call_start|>now()<|tool_call_end|>', '', [NOW]],
    [
      'deepseek_v32',
      'Yes.\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
      'Yes.',
      [ADD, NOW],
    ],
    [
      'deepseek_v4',
      '<｜DSML｜tool_calls><｜DSML｜invoke name="write"><｜DSML｜parameter name="text" string="true">5 > "x"\n</｜DSML｜parameter><｜DSML｜parameter name="lines" string="false">["a"]</｜DSML｜parameter><｜DSML｜parameter name="last">null</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>',
      '',
      [['write', { text: '5 > "x"\n', lines: ['a'], last: null }]],
    ],
    ['json', '{"name": "add", "arguments": {"a": 1, "b": 2}}', '', [ADD]],
    ['json', '[{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now"}]', '', [ADD, NOW]],
    ['json', 'So:\n```json\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n```\n', 'So:', [ADD]],
    ['json', '<|tool_call|>[{"name": "add", "arguments": {"a": 1, "b": 2}}]<|/tool_call|>', '', [ADD]],
    ['json', '{"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}', '', [ADD]],
  ])('by %s (%#)', (parser, text, content, calls) => {
    expect(read(parser, text)).toEqual({ content, reasoning: '', calls });
  });

  it.each<[string, string]>([
    ['hermes', 'A <tool_call> is what?'],
    ['hermes', '<tool_call>{"name": "add", "arguments": {"a": 1</tool_call>'],
    ['hermes', '<tool_call>{"name": "add", "arguments": {"a": 1'],
    ['hermes', '<tool_call>{"name": 5, "arguments": {}}</tool_call> <tool_'],
    ['hermes', '<tool_call>{"name": "add", "arguments": [1]}</tool_call>'],
    ['hermes', ' white space \n'],
    ['llama3_json', '{"answer": 42, "name": "add"}'],
    ['llama3_json', '{"name": "unknown", "parameters": {}}'],
    ['llama3_json', '{"name": "add", "parameters": {}} and more'],
    ['llama3_json', 'Not at the start: {"name": "add", "parameters": {}}'],
    ['json', `[1, 2, ${'3, '.repeat(200)}4]`],
    ['json', '```json\n{"a": 1}\n```'],
    ['mistral', '[TOOL_CALLS]add[ARGS]{"a": 1} and more'],
    ['mistral', '[TOOL_CALLS] not of the form'],
    ['deepseek_v3', '<｜tool▁calls▁begin｜>words<｜tool▁calls▁end｜>'],
    [
      'kimi_k2',
      '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a":',
    ],
    ['qwen3_coder', '<tool_call><function=add><parameter=a>1</parameter>'],
    ['qwen3_coder', '<function=add><parameter=a>1</parameter>'],
    ['qwen3_coder', '<tool_call><function=add><parameter=a>1</function></tool_call>'],
    ['glm45', '<tool_call>add<arg_key>a</arg_key><arg_value>1</tool_call>'],
    ['glm45', '<tool_call>ad'],
    ['gemma4', '<|tool_call>call:add{a:1<tool_call|>'],
    ['gemma4', '<|tool_call>call:add{a:"x}<tool_call|>'],
    ['gemma4', `<|tool_call>call:add${'{a:'.repeat(5000)}<tool_call|>`],
    ['functiongemma', '<start_function_call>add(1)<end_function_call>'],
    ['llama4_pythonic', '[add(1, 2)]'],
    ['llama4_pythonic', '[unknown(a=1)]'],
    ['llama4_pythonic', '[add(a=1)] and more'],
    ['llama4_pythonic', '[add(a=open)]'],
    ['llama4_pythonic', '[see](https://example.com/add(a=1))'],
    ['lfm2', '<|tool_call_start|>[add(a=1<|tool_call_end|>'],
    ['lfm2', "<|tool_call_start|>[add(note='a)]<|tool_call_end|>"],
    ['lfm2', `<|tool_call_start|>[add(a=${'['.repeat(5000)}<|tool_call_end|>`],
    ['lfm2', `<|tool_call_start|>[add(a=[${'1,'.repeat(20_000)}])]<|tool_call_end|>`],
    [
      'deepseek_v32',
      '<｜DSML｜function_calls><｜DSML｜invoke name="add"><｜DSML｜parameter name="a" string="false">one</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>',
    ],
    ['deepseek_v32', '<｜DSML｜function_calls><｜DSML｜invoke name="add"></｜DSML｜function_calls>'],
    ['deepseek_v32', '<｜DSML｜function_calls>words</｜DSML｜function_calls>'],
  ])('and what is none by %s stays text (%#)', (parser, text) => {
    expect(read(parser, text)).toEqual({ content: text, reasoning: '', calls: [] });
  });

  it('text stays text in the form of gpt-oss, too', () => {
    const text = '<|channel|>commentary to=functions.add<|message|>{"a": 1';
    expect(read('openai', text)).toEqual({ content: '{"a": 1', reasoning: '', calls: [] });
    expect(read('openai', 'no head at all')).toEqual({ content: 'no head at all', reasoning: '', calls: [] });
  });

  const deep = `{"a":${'['.repeat(3000)}${']'.repeat(3000)}}`;
  const many = `{"a":[${'1,'.repeat(20_000)}1]}`;
  const calls = (count: number): string => '{"name":"now"} '.repeat(count).trimEnd();
  it.each<[string, string]>([
    ['hermes', `<tool_call>{"name":"now","arguments":${deep}}</tool_call>`],
    ['hermes', `<tool_call>{"name":"now","arguments":${many}}</tool_call>`],
    ['hermes', `<tool_call>${calls(1025)}</tool_call>`],
    ['mistral', `[TOOL_CALLS]now[ARGS]${deep}`],
    ['openai', `<|channel|>commentary to=functions.now<|message|>${deep}<|call|>`],
    ['openai', `<|channel|>commentary to=functions.now<|message|>${many}<|call|>`],
    [
      'kimi_k2',
      `<|tool_calls_section_begin|>${'<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>'.repeat(1025)}<|tool_calls_section_end|>`,
    ],
    [
      'qwen3_coder',
      `<tool_call><function=now>${'<parameter=a>1</parameter>'.repeat(4097)}</function></tool_call>`,
    ],
    ['qwen3_coder', `<tool_call>${'<function=now></function>'.repeat(1025)}</tool_call>`],
    ['glm45', `<tool_call>now${'<arg_key>a</arg_key><arg_value>1</arg_value>'.repeat(4097)}</tool_call>`],
    ['gemma4', `<|tool_call>call:now{a:[${'1,'.repeat(20_000)}1]}<tool_call|>`],
  ])('what would take long to read by %s stays text (%#)', (parser, text) => {
    const { content, calls: none } = read(parser, text);
    expect([content.length >= text.length - 60, none]).toEqual([true, []]);
  });

  it('and so many are read as a model may make', () => {
    expect(read('hermes', `<tool_call>${calls(1024)}</tool_call>`).calls).toHaveLength(1024);
    const list = Array.from({ length: 16_000 }, () => 1);
    const one = {
      name: 'now',
      arguments: { list, deep: JSON.parse(`${'['.repeat(90)}${']'.repeat(90)}`) as unknown },
    };
    expect(read('hermes', `<tool_call>${JSON.stringify(one)}</tool_call>`).calls).toEqual([
      ['now', one.arguments],
    ]);
  });

  const MIB = 2 ** 20;
  it.each<[string, string]>([
    ['hermes', '<tool_call>'],
    ['hermes', '<tool_call></tool_call'],
    ['llama3_json', '{"name": "add", "parameters": '],
    ['json', '{"name":'],
    ['json', '['],
    ['mistral', '[TOOL_CALLS]'],
    ['deepseek_v3', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'],
    ['kimi_k2', '<|tool_calls_section_begin|><|tool_call_begin|>'],
    ['openai', '<|channel|>commentary to=functions.add<|message|>'],
    ['qwen3_coder', '<tool_call><function=add><parameter=a>'],
    ['glm45', '<tool_call>add<arg_key>'],
    ['gemma4', '<|tool_call>call:add{a:['],
    ['functiongemma', '<start_function_call>call:add{a:{'],
    ['lfm2', '<|tool_call_start|>[add(a=['],
    ['llama4_pythonic', '[add(note="'],
    ['deepseek_v32', '<｜DSML｜function_calls><｜DSML｜invoke name="'],
  ])('8 MiB by %s end as text, again and again (%#)', (parser, begin) => {
    const text = begin.repeat(Math.ceil((8 * MIB) / begin.length));
    for (const size of [text.length, 4096]) {
      const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
        text.slice(i * size, (i + 1) * size),
      );
      const { content, calls } = readPieces(opener(parser), pieces);
      expect(calls).toEqual([]);
      if (parser !== 'openai') expect(content.length).toBe(text.length);
    }
    // A call begins once and never ends: the part that is held back is bounded.
    let told = 0;
    const reader = opener(parser)({
      content: (each) => {
        told += each.length;
      },
      reasoning: () => {},
      call: () => {},
    });
    reader.push(begin);
    for (let i = 0; i < 2048; i++) reader.push('x'.repeat(4096));
    expect(told).toBeGreaterThan(7 * MIB);
    reader.end();
    expect(told).toBeGreaterThanOrEqual(8 * MIB);
  });
});
