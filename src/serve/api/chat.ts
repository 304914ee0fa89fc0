import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { badField, unsupported } from './api-error.js';
import { type ChatMessage, readMessages } from './chat-message.js';
import type { Fields } from './fields.js';
import { type ChatTool, readTools, TOOL_NAMES, type ToolUse } from './tools.js';

/** A chat, as far as the prompt is made of it. */
export interface Chat {
  readonly messages: readonly ChatMessage[];
  /** The tools that the model may call; null: none. */
  readonly tools: readonly ChatTool[] | null;
  /** Whether the prompt ends where the model's answer begins. */
  readonly beginsAnswer: boolean;
  /** What the client gives to the template itself (`chat_template_kwargs`), such as `enable_thinking`. */
  readonly templateArguments: Readonly<Record<string, unknown>>;
}

/** A model's own template of chats, which `openChatTemplate` makes of its text. */
export interface ChatTemplate {
  /**
   * The prompt of a chat, as text, or a promise of it.
   * @throws an error, also by rejection, whose message the client is given: the template cannot say such a chat, or there is none
   */
  render(chat: Chat): string | Promise<string>;
  /** Its text, which says in which form the model calls tools and thinks; absent or null: nobody knows. */
  readonly source?: string | null;
  /** What it names that there is not, in words: a chat that needs it is refused. */
  readonly missing?: readonly string[];
}

/** What a body says of tools and templates, under the names of OpenAI's and vLLM's APIs. */
export const CHAT_NAMES = {
  messages: true,
  ...TOOL_NAMES,
  chat_template_kwargs: true,
};

/**
 * Reads a chat.
 * @param hasTemplate whether the model has a template of its own: only that one knows how tools are written
 * @throws ApiError
 */
export function readChatFields(
  fields: Fields,
  hasTemplate: boolean,
): { readonly chat: Omit<Chat, 'beginsAnswer'>; readonly use: ToolUse } {
  const messages = readMessages(fields, hasTemplate);
  const templateArguments = fields.get('chat_template_kwargs') ?? {};
  if (!isObject(templateArguments))
    throw badField('chat_template_kwargs', show(templateArguments), 'an object');
  if (!hasTemplate && Object.keys(templateArguments).length > 0)
    throw unsupported('chat_template_kwargs', 'this model has no template of its own');
  const use = readTools(fields, hasTemplate);
  return { chat: { messages, tools: use.tools, templateArguments }, use };
}
