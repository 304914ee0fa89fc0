import type { CallForm } from './forms/call-form.js';
import { FUNCTION_GEMMA, GEMMA4 } from './forms/gemma-forms.js';
import { HERMES, JSON_FORM, LLAMA3 } from './forms/json-forms.js';
import { DEEPSEEK, KIMI, MISTRAL } from './forms/named-forms.js';
import { PYTHON } from './forms/python-form.js';
import { DEEPSEEK_DSML, GLM45, QWEN3_CODER } from './forms/tagged-forms.js';
import type { ReasoningForm } from './reasoning-reader.js';

/** gpt-oss's format, which has markers for every part of an answer. */
export const HARMONY = 'harmony';

/** The tool-call formats by name; the names are vLLM's where vLLM has the format. */
export const TOOL_CALL_PARSERS: Readonly<Record<string, CallForm | typeof HARMONY>> = {
  hermes: HERMES,
  qwen3_coder: QWEN3_CODER,
  seed_oss: QWEN3_CODER,
  llama3_json: LLAMA3,
  mistral: MISTRAL,
  deepseek_v3: DEEPSEEK,
  deepseek_v31: DEEPSEEK,
  deepseek_v32: DEEPSEEK_DSML,
  deepseek_v4: DEEPSEEK_DSML,
  kimi_k2: KIMI,
  openai: HARMONY,
  glm45: GLM45,
  gemma4: GEMMA4,
  functiongemma: FUNCTION_GEMMA,
  llama4_pythonic: PYTHON,
  pythonic: PYTHON,
  lfm2: PYTHON,
  json: JSON_FORM,
};

const THINK: ReasoningForm = { begin: '<think>', end: '</think>' };

/** The reasoning formats by vLLM's names. */
export const REASONING_PARSERS: Readonly<Record<string, ReasoningForm | typeof HARMONY>> = {
  deepseek_r1: { ...THINK, isInside: true },
  qwen3: THINK,
  glm45: THINK,
  mistral: { begin: '[THINK]', end: '[/THINK]' },
  gemma4: { begin: '<|channel>thought', end: '<channel|>', inner: ['<|channel>'] },
  seed_oss: { begin: '<seed:think>', end: '</seed:think>' },
  openai_gptoss: HARMONY,
};

/**
 * A pattern that a chat template of the format contains, and the name of the format. The first
 * match counts.
 */
const OF_TEMPLATE: readonly (readonly [RegExp, string])[] = [
  [/<\|channel\|>/, 'openai'],
  [/｜DSML｜/, 'deepseek_v32'],
  [/<｜tool▁calls▁begin｜>/, 'deepseek_v3'],
  [/<\|tool_calls_section_begin\|>/, 'kimi_k2'],
  [/\[TOOL_CALLS\]/, 'mistral'],
  [/<arg_key>/, 'glm45'],
  [/<function=/, 'qwen3_coder'],
  [/<\|tool_call>/, 'gemma4'],
  [/<start_function_call>/, 'functiongemma'],
  [/<tool_call>/, 'hermes'],
  [/<\|tool_(?:call|list)_start\|>/, 'lfm2'],
  [/<\|python_start\|>/, 'llama4_pythonic'],
  [/<\|python_tag\|>|"parameters": /, 'llama3_json'],
];
const THOUGHTS_OF_TEMPLATE: readonly (readonly [RegExp, string])[] = [
  [/<\|channel\|>/, 'openai_gptoss'],
  [/<\|channel>/, 'gemma4'],
  [/<seed:think>/, 'seed_oss'],
  [/\[THINK\]/, 'mistral'],
  [/<\/think>/, 'qwen3'],
];

/**
 * The name of the tool-call format that a chat template uses; `json` if the template has no known
 * format.
 * @param template null if there is none
 */
export function toolCallParserOf(template: string | null): string {
  return nameIn(OF_TEMPLATE, template) ?? 'json';
}

/**
 * The name of the reasoning format that a chat template uses; null if the template has no known
 * format.
 */
export function reasoningParserOf(template: string | null): string | null {
  return nameIn(THOUGHTS_OF_TEMPLATE, template);
}

function nameIn(forms: readonly (readonly [RegExp, string])[], template: string | null): string | null {
  return forms.find(([mark]) => mark.test(template ?? ''))?.[1] ?? null;
}
