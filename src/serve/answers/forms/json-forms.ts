import type { CallForm, ReadCall, ToolSchemas } from './call-form.js';
import { jsonCalls } from './json-values.js';

/** `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and 3, and others after them. */
export const HERMES: CallForm = {
  markers: [{ begin: '<tool_call>', end: '</tool_call>' }],
  read: jsonCalls,
};

/** `{"name": …, "parameters": …}`, several behind semicolons: Llama 3. */
export const LLAMA3: CallForm = {
  markers: [{ begin: '<|python_tag|>', end: null }],
  isBare: true,
  read: knownCalls,
};

/** Calls in JSON, bare, in a list, within ` ```json `, or behind one of the markers that smaller families have. */
export const JSON_FORM: CallForm = {
  markers: [
    { begin: '```json', end: '```' },
    { begin: '<|tool_call|>', end: '<|/tool_call|>' },
    { begin: '<tool_call>', end: '</tool_call>' },
    { begin: '<TOOLCALL>', end: '</TOOLCALL>' },
    { begin: 'functools', end: null },
  ],
  isBare: true,
  read: knownCalls,
};

/** JSON without markers of its own is a call only if it names a tool. */
function knownCalls(body: string, tools: ToolSchemas): readonly ReadCall[] | null {
  const calls = jsonCalls(body);
  return calls?.every(({ name }) => tools.has(name)) ? calls : null;
}
