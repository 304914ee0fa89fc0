import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { type KnownNames, knownNames } from '../../base/known-names.js';
import type { Vocabulary } from '../text/vocabulary.js';
import { badField, unsupported } from './api-error.js';
import { checkText, Fields } from './fields.js';

/** One message of a chat. */
export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant';
  readonly content: string;
  /** Who speaks, where several have the same role. */
  readonly name: string | undefined;
}

const ROLES: readonly string[] = ['system', 'developer', 'user', 'assistant'];
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
});
const PART: KnownNames = knownNames<Record<string, unknown>>('a part of a message', {
  type: true,
  text: true,
});

/** Reads `messages`. @throws ApiError */
export function readMessages(fields: Fields): readonly ChatMessage[] {
  const list = fields.list('messages', MAX_MESSAGES, 'messages');
  if (list === undefined) throw badField('messages', 'nothing', 'a list of messages');
  if (list.length === 0) throw badField('messages', 'an empty list', 'a list of at least one message');
  return list.map((each, i) => readMessage(each, `messages[${i}]`));
}

function readMessage(value: unknown, path: string): ChatMessage {
  const message = new Fields(value, MESSAGE, path);
  const role = message.get('role');
  if (role === 'tool' || role === 'function')
    throw unsupported(`${path}.role`, 'this server calls no tools, so there are no answers of tools');
  if (typeof role !== 'string' || !ROLES.includes(role))
    throw badField(`${path}.role`, show(role), `one of ${ROLES.join(', ')}`);
  for (const name of ['tool_calls', 'function_call', 'audio', 'refusal']) {
    const given = message.get(name);
    if (given !== undefined && !(Array.isArray(given) && given.length === 0))
      throw unsupported(`${path}.${name}`, 'messages have text only');
  }
  return {
    role: role as ChatMessage['role'],
    content: readContent(message, path),
    name: message.text('name', 256),
  };
}

/** Text, or a list of parts of which each is text. */
function readContent(message: Fields, path: string): string {
  const content = message.get('content');
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

/** A plain form of a chat, for a model that was trained on none: each message behind the name of who speaks. */
export function plainChatPrompt(messages: readonly ChatMessage[], vocabulary: Vocabulary): Int32Array {
  const lines = messages.map(({ role, name, content }) => `${name ?? role}: ${content}\n`);
  return vocabulary.encode(`${lines.join('')}assistant:`);
}
