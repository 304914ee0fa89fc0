// Reasoning in each format; the format of a template.
import { describe, expect, it } from 'vitest';
import { AnswerForms } from '../../../src/serve/answers/answer-forms.js';
import { reasoningParserOf, toolCallParserOf } from '../../../src/serve/answers/parsers.js';
import { ReasoningReader } from '../../../src/serve/answers/reasoning-reader.js';
import { o200k } from '../../../src/serve/index.js';
import { readAlike, readPieces, TOOLS } from './read.js';

const CALL = '<tool_call>{"name": "now", "arguments": {}}</tool_call>';

function read(parser: string, text: string, prompt = '', calls: string | null = 'hermes') {
  const forms = new AnswerForms(o200k, calls, parser);
  const reading = forms.reading({ tools: calls === null ? null : TOOLS, prompt: o200k.encode(prompt) });
  return readAlike((sink) => reading!.open(sink), text);
}

describe('what a model thinks is read', () => {
  it.each<[string, string, string, string]>([
    ['qwen3', '<think>\nhm\n\nso\n</think>\n\nyes', 'hm\n\nso', 'yes'],
    ['qwen3', '\n<think></think>yes', '', 'yes'],
    ['qwen3', 'a <think>b</think>', '', 'a <think>b</think>'],
    ['qwen3', '<thin', '', '<thin'],
    ['qwen3', '<think>cut off', 'cut off', ''],
    ['deepseek_r1', 'hm</think>\nyes', 'hm', 'yes'],
    ['deepseek_r1', '<think>hm</think>yes', 'hm', 'yes'],
    ['mistral', '[THINK]hm[/THINK]yes', 'hm', 'yes'],
    ['gemma4', '<|channel>thought\nhm\n<channel|>yes', 'hm', 'yes'],
    ['seed_oss', '<seed:think>hm</seed:think>yes', 'hm', 'yes'],
    [
      'openai_gptoss',
      '<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>',
      'hm',
      'yes',
    ],
  ])('by %s: %j', (parser, text, reasoning, content) => {
    expect(read(parser, text)).toEqual({ content, reasoning, calls: [] });
  });

  it('where the prompt begins it', () => {
    expect(read('qwen3', 'hm</think>yes', 'user: a\n<think>\n')).toMatchObject({
      reasoning: 'hm',
      content: 'yes',
    });
    expect(read('qwen3', 'yes', 'user: a\n<think>\n\n</think>\n\n')).toMatchObject({
      reasoning: '',
      content: 'yes',
    });
    expect(read('qwen3', '<think>hm</think>yes', '<think>')).toMatchObject({
      reasoning: 'hm',
      content: 'yes',
    });
  });

  it('in front of calls, and calls in it are none', () => {
    expect(read('qwen3', `<think>${CALL}</think>\nI look.\n${CALL}`)).toEqual({
      reasoning: CALL,
      content: 'I look.',
      calls: [['now', {}]],
    });
  });

  it('and without tools calls stay text', () => {
    expect(read('qwen3', `<think>a</think>${CALL}`, '', null)).toEqual({
      reasoning: 'a',
      content: CALL,
      calls: [],
    });
  });

  it('white space without end is not held back', () => {
    let told = 0;
    const reader = new ReasoningReader(
      { begin: '<think>', end: '</think>' },
      { content: () => {}, reasoning: () => {}, call: () => {} },
      false,
      () => ({
        push: (text) => {
          told += text.length;
        },
        end: () => {},
      }),
    );
    for (let i = 0; i < 100; i++) reader.push(' '.repeat(100));
    expect(told).toBeGreaterThan(8000);
  });

  it('8 MiB of thoughts as they come', () => {
    const forms = new AnswerForms(o200k, null, 'qwen3');
    const { open } = forms.reading({ tools: null, prompt: o200k.encode('a') })!;
    const pieces = ['<think>', ...Array<string>(2048).fill('</thin'.repeat(683)), '</think>yes'];
    const { reasoning, content } = readPieces(open, pieces);
    expect([reasoning.length, content]).toEqual([2048 * 683 * 6, 'yes']);
  });
});

describe('the form of a model', () => {
  it.each<[string, string, string | null]>([
    ['{{ "<tool_call>" }}', 'hermes', null],
    ['{{ "<tool_call>\\n<function=" }}</think>', 'qwen3_coder', 'qwen3'],
    ['<tool_call><arg_key>{{ a }}</think>', 'glm45', 'qwen3'],
    ['"<|python_tag|>"', 'llama3_json', null],
    ['[TOOL_CALLS] [THINK]', 'mistral', 'mistral'],
    ['<｜tool▁calls▁begin｜></think>', 'deepseek_v3', 'qwen3'],
    ['<|channel|>analysis', 'openai', 'openai_gptoss'],
    ['<|tool_call>call: <|channel>', 'gemma4', 'gemma4'],
    ['<start_function_call>', 'functiongemma', null],
    ['<|tool_calls_section_begin|>', 'kimi_k2', null],
    ['<|tool_call_start|>', 'lfm2', null],
    ['<|tool_list_start|>', 'lfm2', null],
    ['<|python_start|> <|python_tag|>', 'llama4_pythonic', null],
    ['<｜DSML｜invoke name= </think>', 'deepseek_v32', 'qwen3'],
    ['anything', 'json', null],
  ])('is that of its template: %s', (template, calls, thoughts) => {
    expect([toolCallParserOf(template), reasoningParserOf(template)]).toEqual([calls, thoughts]);
  });
});
