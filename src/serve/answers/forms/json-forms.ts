import type { CallForm, ReadCall, ToolSchemas } from './call-form.js';
import { jsonCalls } from './json-values.js';

/**
 * `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and 3, and later families.
 */
export const HERMES: CallForm = {
  markers: [{ begin: '<tool_call>', end: '</tool_call>' }],
  read: jsonCalls,
};

/** The keys of a call, in an object or in the first object of a list. */
const BARE_JSON = /^\s*\[?\s*\{\s*"(?:name|type|id|function|tool_calls|tool_name|arguments|parameters)"/;

/** `{"name": …, "parameters": …}`, several calls separated by semicolons: Llama 3. */
export const LLAMA3: CallForm = {
  markers: [{ begin: '<|python_tag|>', end: null }],
  bare: BARE_JSON,
  read: knownCalls,
};

/**
 * Calls in JSON: bare, in a list, within ` ```json `, or after a marker that smaller families use.
 */
export const JSON_FORM: CallForm = {
  markers: [
    { begin: '```json', end: '```' },
    { begin: '<|tool_call|>', end: '<|/tool_call|>' },
    { begin: '<tool_call>', end: '</tool_call>' },
    { begin: '<TOOLCALL>', end: '</TOOLCALL>' },
    { begin: 'functools', end: null },
  ],
  bare: BARE_JSON,
  read: knownCalls,
};

/** JSON without a marker is a call only if it names a known tool. */
export function knownCalls(body: string, tools: ToolSchemas): readonly ReadCall[] | null {
  const calls = jsonCalls(body);
  return calls?.every(({ name }) => tools.has(name)) ? calls : null;
}
