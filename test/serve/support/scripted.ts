import OpenAI from 'openai';
import type { Executor, ExecutorPlan, Grammar } from '../../../src/index.js';
import {
  type ModelOptions,
  o200k,
  openChatTemplate,
  type TextFormat,
  type Vocabulary,
} from '../../../src/serve/index.js';
import { NotedGrammar } from '../model/small-model.js';
import { MODEL, serve } from './served.js';

/** The answer of a scripted model: a text, or one that follows from the format of the request. */
export type Line = string | ((format: TextFormat | null) => string);

/** An executor that answers request after request with the texts of a script. */
export class Scripted implements Executor {
  readonly usesTables = false;
  /** The formats of the requests, in their order. */
  readonly formats: (TextFormat | null)[] = [];
  readonly #vocabulary: Vocabulary;
  readonly #lines: readonly Line[];
  readonly #tokens = new Map<number, number[]>();

  constructor(lines: readonly Line[], vocabulary: Vocabulary) {
    this.#lines = lines;
    this.#vocabulary = vocabulary;
  }

  execute(plan: ExecutorPlan) {
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const tokens: number[] = [];
    for (let i = 0; i < plan.numRequests; i++) {
      const { handle, grammar } = plan.requests[i];
      let left = this.#tokens.get(handle);
      if (left === undefined) {
        left = this.#answer(grammar);
        this.#tokens.set(handle, left);
      }
      for (let n = 0; n < counts[i]; n++) tokens.push(left.shift() ?? this.#vocabulary.endOfText);
    }
    return { tokens: Int32Array.from(tokens), counts };
  }

  #answer(grammar: Grammar | null): number[] {
    const format = grammar instanceof NotedGrammar ? grammar.format : null;
    const line = this.#lines[this.formats.length] ?? '(the script is over)';
    this.formats.push(format);
    const text = typeof line === 'string' ? line : line(format);
    return [...this.#vocabulary.encode(text, false), this.#vocabulary.endOfText];
  }
}

/** A template that writes tools, calls and their answers, and speaks of the form that `marks` is of. */
export const templateOf = (marks: string): string => `{#- ${marks} -#}
{%- if tools %}{{ 'tools: ' + (tools | tojson) + '\\n' }}{% endif %}
{%- for message in messages %}
{{- message.role + ': ' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}{{ ' call ' + (call.function | tojson) }}{% endfor %}
{{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}`;

/** A server of a model that answers by a script, and OpenAI's client of it. */
export async function scripted(
  lines: readonly Line[],
  { marks = '<tool_call>', ...model }: Partial<ModelOptions> & { marks?: string } = {},
) {
  const vocabulary = model.vocabulary ?? o200k;
  const executor = new Scripted(lines, vocabulary);
  const options = {
    id: MODEL,
    vocabulary,
    chatTemplate: await openChatTemplate(templateOf(marks)),
    sampling: 'ignore' as const,
    grammar: (format: TextFormat) => new NotedGrammar(format),
    ...model,
  };
  const served = await serve({ engine: { executor }, serve: { model: options } });
  const baseURL = `${served.url}/v1`;
  return { ...served, executor, baseURL, openai: new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0 }) };
}

/**
 * How each form of calls writes a call of `add` with a = 1 and b = 2, and a call of `now`. Also the
 * mark by which its template is known.
 */
export const TWO_CALLS: Readonly<Record<string, { readonly marks: string; readonly text: string }>> = {
  hermes: {
    marks: '<tool_call>',
    text: '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
  },
  qwen3_coder: {
    marks: '<tool_call><function=',
    text: '<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>',
  },
  llama3_json: {
    marks: '<|python_tag|>',
    text: '{"name": "add", "parameters": {"a": 1, "b": 2}}; {"name": "now", "parameters": {}}',
  },
  mistral: { marks: '[TOOL_CALLS]', text: '[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}[TOOL_CALLS]now[ARGS]{}' },
  deepseek_v3: {
    marks: '<｜tool▁calls▁begin｜>',
    text: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{"a": 1, "b": 2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  },
  kimi_k2: {
    marks: '<|tool_calls_section_begin|>',
    text: '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"a": 1, "b": 2}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>',
  },
  openai: {
    marks: '<|channel|>',
    text: '<|channel|>analysis<|message|>Two.<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1, "b": 2}<|call|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>',
  },
  glm45: {
    marks: '<tool_call><arg_key>',
    text: '<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>',
  },
  gemma4: {
    marks: '<|tool_call>',
    text: '<|tool_call>call:add{a:1,b:2}<tool_call|><|tool_call>call:now{}<tool_call|>',
  },
  functiongemma: {
    marks: '<start_function_call>',
    text: '<start_function_call>call:add{a:1,b:2}<end_function_call><start_function_call>call:now{}<end_function_call>',
  },
  deepseek_v32: {
    marks: '｜DSML｜',
    text: '<｜DSML｜function_calls>\n<｜DSML｜invoke name="add">\n<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n<｜DSML｜parameter name="b" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
  },
  llama4_pythonic: { marks: '<|python_start|>', text: '[add(a=1, b=2), now()]' },
  lfm2: { marks: '<|tool_list_start|>', text: '<|tool_call_start|>[add(a=1, b=2), now()]<|tool_call_end|>' },
  json: {
    marks: 'none of these',
    text: '[{"name": "add", "arguments": {"a": 1, "b": 2}}, {"name": "now", "arguments": {}}]',
  },
};
