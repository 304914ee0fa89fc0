import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import { ApiError, badField, unsupported } from '../api/api-error.js';
import { readChat } from '../api/chat-request.js';
import { checkText, Fields } from '../api/fields.js';
import {
  type GenerationRequest,
  type Harmless,
  type RequestBounds,
  refuseUnsupported,
} from '../api/generation-request.js';
import type { ServedModel } from '../api/served-model.js';

/**
 * Fields of OpenAI's responses that this server does not support. It keeps no state between
 * requests.
 */
const HARMLESS: Harmless = {
  store: (value) => value === false,
  previous_response_id: () => false,
  conversation: () => false,
  background: (value) => value === false,
  prompt: () => false,
  truncation: (value) => value === 'disabled',
  // The server has no such data to include.
  include: (value) => Array.isArray(value) && value.every((each) => each === 'reasoning.encrypted_content'),
  max_tool_calls: () => false,
  top_logprobs: (value) => value === 0,
  metadata: (value) => typeof value === 'object',
  service_tier: (value) => value === 'auto' || value === 'default',
  safety_identifier: (value) => typeof value === 'string',
  prompt_cache_key: (value) => typeof value === 'string',
  stream_options: isObject,
};

/** Fields that have the same names in chats. */
const SAME = [
  'model',
  'temperature',
  'top_p',
  'stream',
  'user',
  'parallel_tool_calls',
  'tools',
  'tool_choice',
];

const NAMES = knownNames<Record<string, unknown>>(
  'the body',
  {
    ...HARMLESS,
    ...Object.fromEntries(SAME.map((name) => [name, true])),
    input: true,
    instructions: true,
    max_output_tokens: true,
    text: true,
    reasoning: true,
  },
  {
    messages: 'it is input here',
    max_tokens: 'it is max_output_tokens here',
    response_format: 'it is text.format here',
  },
);
const REASONING = knownNames<Record<string, unknown>>('reasoning', {
  effort: true,
  summary: true,
  generate_summary: true,
});
const TEXT = knownNames<Record<string, unknown>>('text', { format: true, verbosity: true });
const MOST_ITEMS = 10_000;
const LONGEST = 2 ** 30;

/** The names here of a chat's fields. */
const CHAT_WORDS: readonly (readonly [RegExp, string])[] = [
  [/\bmessages(\[\d+\])?[\w.[\]]*/g, 'input'],
  [/\breasoning_effort\b/g, 'reasoning.effort'],
  [/\bmax_completion_tokens\b/g, 'max_output_tokens'],
  [/\bresponse_format(\.json_schema)?\b/g, 'text.format'],
];

/**
 * Reads the body of `POST /v1/responses`: a chat under other names, without a memory of earlier
 * responses.
 * @throws ApiError
 */
export async function readResponse(
  body: unknown,
  model: ServedModel,
  bounds: RequestBounds,
): Promise<GenerationRequest> {
  const fields = new Fields(body, NAMES);
  refuseUnsupported(fields, HARMLESS);
  const text = fields.object('text', TEXT);
  const reasoning = fields.object('reasoning', REASONING);
  for (const name of ['summary', 'generate_summary'])
    if ((reasoning?.get(name) ?? null) !== null)
      throw unsupported(`reasoning.${name}`, 'thoughts are told as they are, or not at all');
  const same = SAME.flatMap((name) => {
    const value = fields.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  const chat = {
    ...Object.fromEntries(same),
    ...lists(fields),
    reasoning_effort: reasoning?.get('effort') ?? null,
    ...(text?.get('format') !== undefined && { response_format: formatOf(text.get('format')) }),
    ...(fields.get('max_output_tokens') !== undefined && {
      max_completion_tokens: fields.get('max_output_tokens'),
    }),
  };
  try {
    return await readChat(chat, model, bounds);
  } catch (error) {
    throw error instanceof ApiError ? inWordsOfResponses(error) : error;
  }
}

/** The messages and tools of the chat. */
function lists(fields: Fields): object {
  const tools = fields.list('tools', MOST_ITEMS, 'tools');
  const choice = fields.get('tool_choice');
  const isNamed = isObject(choice) && choice['type'] === 'function' && typeof choice['name'] === 'string';
  return {
    messages: messagesOf(fields),
    ...(tools !== undefined && { tools: tools.map(toolOf) }),
    ...(isNamed && { tool_choice: { type: 'function', function: { name: choice['name'] } } }),
  };
}

function messagesOf(fields: Fields): object[] {
  const instructions = fields.text('instructions', LONGEST);
  const messages: object[] = instructions === undefined ? [] : [{ role: 'system', content: instructions }];
  const input = fields.get('input');
  if (typeof input === 'string')
    return [...messages, { role: 'user', content: checkText('input', input, LONGEST) }];
  const items = fields.list('input', MOST_ITEMS, 'items');
  if (items === undefined || items.length === 0)
    throw badField('input', show(input), 'a text, or a list of items');
  items.forEach((item, i) => {
    addItem(messages, item, `input[${i}]`);
  });
  return messages;
}

function addItem(messages: object[], item: unknown, path: string): void {
  if (!isObject(item)) throw badField(path, show(item), 'an object');
  const { type = 'message', role, content } = item;
  if (type === 'message') addMessage(messages, role, partsOf(content, `${path}.content`));
  else if (type === 'function_call') addCall(messages, item);
  else if (type === 'function_call_output') {
    const output = partsOf(item['output'], `${path}.output`);
    messages.push({ role: 'tool', tool_call_id: item['call_id'], content: output });
  } else if (type === 'reasoning') addReasoning(messages, item, path);
  else if (type === 'item_reference')
    throw unsupported(`${path}.type`, 'nothing is stored here: send the items themselves (store: false)');
  else throw unsupported(`${path}.type`, `this server does not know what to do with ${show(type)}`);
}

/** A message of the assistant, while its items are being read. */
interface OpenMessage {
  readonly role?: unknown;
  content?: unknown;
  tool_calls?: object[];
}

/** An assistant's text after its reasoning belongs to the same message. */
function addMessage(messages: object[], role: unknown, content: unknown): void {
  const last = messages.at(-1) as OpenMessage | undefined;
  const hasOnlyThought = last?.content === null && last.tool_calls === undefined;
  if (role === 'assistant' && hasOnlyThought) last.content = content;
  else messages.push({ role, content });
}

/**
 * The reasoning of an assistant, as this server reported it, or another server's summary. Nothing
 * is added if both were stored elsewhere.
 */
function addReasoning(messages: object[], { content, summary }: Record<string, unknown>, path: string): void {
  const text = thoughtsOf(content, `${path}.content`) || thoughtsOf(summary, `${path}.summary`);
  if (text !== '') messages.push({ role: 'assistant', content: null, reasoning_content: text });
}

function thoughtsOf(parts: unknown, path: string): string {
  if (parts === undefined || parts === null) return '';
  if (!Array.isArray(parts)) throw badField(path, show(parts), 'a list of parts with a text');
  return parts
    .map((part: unknown, i) => checkText(`${path}[${i}].text`, isObject(part) ? part['text'] : part, LONGEST))
    .join('');
}

/** Consecutive calls belong to one message of the assistant. */
function addCall(messages: object[], { call_id, name, arguments: given }: Record<string, unknown>): void {
  const call = { id: call_id, type: 'function', function: { name, arguments: given } };
  const last = messages.at(-1) as OpenMessage | undefined;
  if (last?.role !== 'assistant') messages.push({ role: 'assistant', content: null, tool_calls: [call] });
  else last.tool_calls = [...(last.tool_calls ?? []), call];
}

function partsOf(content: unknown, path: string): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown, i) => {
    const type = isObject(part) ? part['type'] : undefined;
    if (type !== 'input_text' && type !== 'output_text')
      throw unsupported(`${path}[${i}].type`, `${show(type)} is no text, and messages have text only`);
    return { type: 'text', text: (part as { text?: unknown }).text };
  });
}

function toolOf(tool: unknown): unknown {
  if (!isObject(tool) || tool['type'] !== 'function') return tool;
  const { type, ...described } = tool;
  return { type, function: described };
}

function formatOf(format: unknown): unknown {
  if (!isObject(format) || format['type'] !== 'json_schema') return format;
  const { type, ...described } = format;
  return { type, json_schema: described };
}

function inWordsOfResponses({ status, body, message }: ApiError): ApiError {
  const { param, code, type } = body.error;
  const say = (text: string): string => CHAT_WORDS.reduce((said, [from, to]) => said.replace(from, to), text);
  return new ApiError(status, say(message), { type, code, param: param === null ? null : say(param) });
}
