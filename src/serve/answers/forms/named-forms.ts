import { type CallForm, type ReadCall, TOOL_NAME } from './call-form.js';
import { argumentsOf, jsonCalls, jsonEnd, MOST_CALLS } from './json-values.js';

const ARGS = '[ARGS]';
const CALL_ID = '[CALL_ID]';

/**
 * `[TOOL_CALLS][{"name": …, "arguments": …}]` in older models, `[TOOL_CALLS]NAME[ARGS]{…}` in newer
 * ones: Mistral.
 */
export const MISTRAL: CallForm = {
  markers: [{ begin: '[TOOL_CALLS]', end: null }],
  inner: [ARGS, CALL_ID],
  hasShortIds: true,
  read(body) {
    const text = body.trim();
    if (text.startsWith('[{') || text.startsWith('{')) return jsonCalls(text);
    const brace = text.indexOf('{');
    if (brace < 0) return null;
    const head = text.slice(0, brace);
    const name = head.split(CALL_ID)[0].split(ARGS)[0].trim();
    // Text after the call would be lost.
    if (jsonEnd(text, brace) !== text.length) return null;
    return named(name, text.slice(brace));
  },
};

const DEEPSEEK_BEGIN = '<｜tool▁call▁begin｜>';
const DEEPSEEK_END = '<｜tool▁call▁end｜>';
const DEEPSEEK_MIDDLE = '<｜tool▁sep｜>';

/**
 * Calls within `<｜tool▁calls▁begin｜>`, with the JSON inside ` ```json ` (V3, R1) or bare (V3.1):
 * DeepSeek.
 */
export const DEEPSEEK: CallForm = {
  markers: [{ begin: '<｜tool▁calls▁begin｜>', end: '<｜tool▁calls▁end｜>' }],
  inner: [DEEPSEEK_BEGIN, DEEPSEEK_END, DEEPSEEK_MIDDLE],
  read: (body) =>
    eachCall(body, [DEEPSEEK_BEGIN, DEEPSEEK_END], (text) => {
      const [head, ...rest] = text.split(DEEPSEEK_MIDDLE);
      const tail = rest.join(DEEPSEEK_MIDDLE).trim();
      const fence = tail.indexOf('```json');
      if (fence < 0) return named(head.trim(), tail);
      const json = tail.slice(fence + '```json'.length);
      return named(tail.slice(0, fence).trim(), json.slice(0, json.lastIndexOf('```')));
    }),
};

const KIMI_BEGIN = '<|tool_call_begin|>';
const KIMI_END = '<|tool_call_end|>';
const KIMI_MIDDLE = '<|tool_call_argument_begin|>';

/** `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`: Kimi K2. */
export const KIMI: CallForm = {
  markers: [{ begin: '<|tool_calls_section_begin|>', end: '<|tool_calls_section_end|>' }],
  inner: [KIMI_BEGIN, KIMI_END, KIMI_MIDDLE],
  read: (body) =>
    eachCall(body, [KIMI_BEGIN, KIMI_END], (text) => {
      const [head, ...rest] = text.split(KIMI_MIDDLE);
      const name = head
        .trim()
        .replace(/^functions\./, '')
        .replace(/:\d{1,9}$/, '');
      return named(name, rest.join(KIMI_MIDDLE));
    }),
};

/**
 * The calls between two markers; null if there is other text, or if one of the calls is malformed.
 */
function eachCall(
  body: string,
  [begin, end]: readonly [string, string],
  read: (text: string) => readonly ReadCall[] | null,
): readonly ReadCall[] | null {
  const calls: ReadCall[] = [];
  const [before, ...texts] = body.split(begin);
  if (before.trim() !== '' || texts.length === 0 || texts.length > MOST_CALLS) return null;
  for (const text of texts) {
    const [inside, ...after] = text.split(end);
    const call = after.join('').trim() === '' ? read(inside) : null;
    if (call === null) return null;
    calls.push(...call);
  }
  return calls;
}

function named(name: string, json: string): readonly ReadCall[] | null {
  const args = argumentsOf(json);
  return args === null || !TOOL_NAME.test(name) ? null : [{ name, arguments: args }];
}
