import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { badField, unsupported } from './api-error.js';
import { type ChatMessage, readMessages } from './chat-message.js';
import type { Fields } from './fields.js';

/** What a client says of a tool that the model may call, as OpenAI's API has it. */
export interface ChatTool {
  readonly type: 'function';
  readonly function: { readonly name: string } & Readonly<Record<string, unknown>>;
}

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
}

const MOST_TOOLS = 1024;
const TOOL_NAME = /^[\w.:-]{1,256}$/;

/** What a body says of tools and templates, under the names of OpenAI's and vLLM's APIs. */
export const CHAT_NAMES = {
  messages: true,
  tools: true,
  tool_choice: true,
  parallel_tool_calls: true,
  chat_template_kwargs: true,
};

/**
 * Reads a chat.
 * @param hasTemplate whether the model has a template of its own: only that one knows how tools are written
 * @throws ApiError
 */
export function readChatFields(fields: Fields, hasTemplate: boolean): Omit<Chat, 'beginsAnswer'> {
  const messages = readMessages(fields, hasTemplate);
  const templateArguments = fields.get('chat_template_kwargs') ?? {};
  if (!isObject(templateArguments))
    throw badField('chat_template_kwargs', show(templateArguments), 'an object');
  if (!hasTemplate && Object.keys(templateArguments).length > 0)
    throw unsupported('chat_template_kwargs', 'this model has no template of its own');
  fields.boolean('parallel_tool_calls');
  return { messages, tools: readTools(fields, hasTemplate), templateArguments };
}

function readTools(fields: Fields, hasTemplate: boolean): readonly ChatTool[] | null {
  const choice = fields.get('tool_choice') ?? 'auto';
  const list = fields.list('tools', MOST_TOOLS, 'tools') ?? [];
  if (choice !== 'auto' && choice !== 'none')
    throw unsupported(
      'tool_choice',
      `the model decides by itself whether it calls a tool, so ${show(choice)} cannot be had`,
    );
  if (list.length === 0) return null;
  if (!hasTemplate)
    throw unsupported('tools', 'this model has no template that would say how they are written');
  const tools = list.map((tool, i) => {
    const name = isObject(tool) && isObject(tool['function']) ? tool['function']['name'] : undefined;
    if (!isObject(tool) || tool['type'] !== 'function' || typeof name !== 'string' || !TOOL_NAME.test(name))
      throw badField(`tools[${i}]`, show(tool), 'a tool: { type: "function", function: { name, … } }');
    return tool as unknown as ChatTool;
  });
  return choice === 'none' ? null : tools;
}
