import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { type KnownNames, knownNames } from '../../base/known-names.js';
import { badField, unsupported } from './api-error.js';
import { checkText, Fields } from './fields.js';

/** A tool call in a message of an assistant. */
export interface ChatToolCall {
  readonly id: string | undefined;
  readonly name: string;
  /** The values by name. */
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** One message of a chat. */
export interface ChatMessage {
  /** `tool`, the answer of a tool, is possible only for models with a chat template. */
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  /** The reasoning of an assistant before this message; absent if unknown. */
  readonly reasoning?: string;
  /**
   * The name of the speaker, to tell apart several with the same role; for an answer of a tool, the
   * tool's name.
   */
  readonly name: string | undefined;
  /** The calls that an assistant made; undefined if none. */
  readonly toolCalls?: readonly ChatToolCall[];
  /** The id of the call that a tool answers. */
  readonly toolCallId?: string;
}

const ROLES: readonly string[] = ['system', 'developer', 'user', 'assistant'];
const MAX_CALLS = 1024;
const MAX_MESSAGES = 10_000;
const MAX_CONTENT = 2 ** 30;

const MESSAGE = knownNames<Record<string, unknown>>('a message', {
  role: true,
  content: true,
  name: true,
  refusal: true,
  tool_calls: true,
  function_call: true,
  audio: true,
  annotations: true,
  tool_call_id: true,
  reasoning_content: true,
  reasoning: true,
});
const CALL = knownNames<Record<string, unknown>>('a call of a tool', {
  id: true,
  type: true,
  function: true,
  index: true,
});
const CALLED = knownNames<Record<string, unknown>>('a called function', { name: true, arguments: true });
const PART: KnownNames = knownNames<Record<string, unknown>>('a part of a message', {
  type: true,
  text: true,
});

/**
 * Reads `messages`. @param takesTools whether tools may be called and may answer @throws ApiError
 */
export function readMessages(fields: Fields, takesTools: boolean): readonly ChatMessage[] {
  const list = fields.list('messages', MAX_MESSAGES, 'messages');
  if (list === undefined) throw badField('messages', fields.shown('messages'), 'a list of messages');
  if (list.length === 0) throw badField('messages', 'an empty list', 'a list of at least one message');
  return list.map((each, i) => readMessage(each, `messages[${i}]`, takesTools));
}

function readMessage(value: unknown, path: string, takesTools: boolean): ChatMessage {
  const message = new Fields(value, MESSAGE, path);
  const role = message.get('role');
  // OpenAI's older API has functions instead of tools.
  const isAnswer = role === 'tool' || role === 'function';
  if (isAnswer && !takesTools)
    throw unsupported(`${path}.role`, 'this model calls no tools, so there are no answers of tools');
  if (typeof role !== 'string' || !(ROLES.includes(role) || isAnswer))
    throw badField(`${path}.role`, message.shown('role'), `one of ${ROLES.join(', ')}`);
  for (const name of takesTools ? TEXTS_ONLY : [...CALLS, ...TEXTS_ONLY]) {
    const given = message.get(name);
    if (given !== undefined && !(Array.isArray(given) && given.length === 0))
      throw unsupported(`${path}.${name}`, 'messages have text only');
  }
  const toolCalls = readCalls(message, role);
  const toolCallId =
    message.text('tool_call_id', MAX_NAME) ?? (role === 'function' ? FUNCTION_ID : undefined);
  const reasoning = message.text('reasoning_content', MAX_CONTENT) ?? message.text('reasoning', MAX_CONTENT);
  // An assistant message with tool calls or reasoning may have no content.
  const isSilent = (toolCalls !== null || reasoning !== undefined) && message.get('content') === undefined;
  return {
    role: (isAnswer ? 'tool' : role) as ChatMessage['role'],
    content: isSilent ? '' : readContent(message, path),
    name: message.text('name', MAX_NAME),
    ...(reasoning !== undefined && role === 'assistant' && { reasoning }),
    ...(toolCalls !== null && { toolCalls }),
    ...(toolCallId !== undefined && { toolCallId }),
  };
}

const CALLS = ['tool_calls', 'function_call'];
/**
 * The id of a call in OpenAI's older API, where a message has at most one call and no id. Templates
 * require nine letters and digits.
 */
const FUNCTION_ID = 'function1';
const TEXTS_ONLY = ['audio', 'refusal'];
const MAX_NAME = 256;

function readCalls(message: Fields, role: string): readonly ChatToolCall[] | null {
  const list = message.list('tool_calls', MAX_CALLS, 'calls of tools') ?? [];
  const old = message.get('function_call');
  if (list.length === 0 && old === undefined) return null;
  const name = message.nameOf(list.length === 0 ? 'function_call' : 'tool_calls');
  if (role !== 'assistant') throw badField(name, show(old ?? list), `absent in a message of role ${role}`);
  if (list.length === 0) return [{ id: FUNCTION_ID, ...readCalled(old, name) }];
  return list.map((each, i) => {
    const call = new Fields(each, CALL, `${name}[${i}]`);
    return {
      id: call.text('id', MAX_NAME),
      ...readCalled(call.get('function'), call.nameOf('function')),
    };
  });
}

function readCalled(value: unknown, path: string): Pick<ChatToolCall, 'name' | 'arguments'> {
  const called = new Fields(value, CALLED, path);
  return {
    name: checkText(`${path}.name`, called.get('name'), MAX_NAME),
    arguments: readArguments(`${path}.arguments`, called.get('arguments')),
  };
}

/**
 * OpenAI's API carries the arguments as JSON in a string, but templates write an object as JSON
 * themselves. Models and clients express empty arguments in several ways.
 */
function readArguments(path: string, value: unknown): ChatToolCall['arguments'] {
  if (value === undefined) return {};
  let read: unknown = value;
  if (typeof value === 'string') {
    try {
      read = value.trim() === '' ? {} : (JSON.parse(value) ?? {});
    } catch {
      read = undefined;
    }
  }
  if (isObject(read)) return read;
  throw badField(path, show(value), 'an object, as JSON in a string');
}

/** A text, or a list of text parts. */
function readContent(message: Fields, path: string): string {
  const content = message.get('content');
  if (content === undefined) throw badField(`${path}.content`, message.shown('content'), 'a string');
  if (!Array.isArray(content)) return checkText(`${path}.content`, content, MAX_CONTENT);
  return content.map((part: unknown, i) => readPart(part, `${path}.content[${i}]`)).join('');
}

function readPart(value: unknown, path: string): string {
  if (isObject(value) && typeof value['type'] === 'string' && value['type'] !== 'text')
    throw unsupported(`${path}.type`, `${show(value['type'])} is no text, and messages have text only`);
  const part = new Fields(value, PART, path);
  if (part.get('type') !== 'text') throw badField(`${path}.type`, show(part.get('type')), '"text"');
  return checkText(`${path}.text`, part.get('text'), MAX_CONTENT);
}

/**
 * A plain format for a model that was trained on no chat format: each message after the name of its
 * speaker.
 */
export function plainChatText(messages: readonly ChatMessage[]): string {
  const lines = messages.map(({ role, name, content }) => `${name ?? role}: ${content}\n`);
  return `${lines.join('')}assistant:`;
}
