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

/** What is known of the template of a model. */
interface TemplateFacts {
  /** Whether the model has a template of its own: only that one knows how tools are written. */
  readonly hasTemplate: boolean;
  /** Its text; null: nobody knows. */
  readonly templateSource: string | null;
}

/** How much a model is to think, by OpenAI's names. */
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** What a body says of tools and templates, under the names of OpenAI's and vLLM's APIs. */
export const CHAT_NAMES = {
  messages: true,
  ...TOOL_NAMES,
  chat_template_kwargs: true,
  reasoning_effort: true,
};

/** Reads a chat. @throws ApiError */
export function readChatFields(
  fields: Fields,
  template: TemplateFacts,
): { readonly chat: Omit<Chat, 'beginsAnswer'>; readonly use: ToolUse } {
  const { hasTemplate } = template;
  const messages = readMessages(fields, hasTemplate);
  const given = fields.get('chat_template_kwargs') ?? {};
  if (!isObject(given)) throw badField('chat_template_kwargs', show(given), 'an object');
  if (!hasTemplate && Object.keys(given).length > 0)
    throw unsupported('chat_template_kwargs', 'this model has no template of its own');
  // What is said to the template itself is said later.
  const templateArguments = { ...readEffort(fields, template), ...given };
  const use = readTools(fields, hasTemplate);
  return { chat: { messages, tools: use.tools, templateArguments }, use };
}

/** What a template is told of how much the model is to think. */
function readEffort(
  fields: Fields,
  { hasTemplate, templateSource }: TemplateFacts,
): Readonly<Record<string, unknown>> {
  const effort = fields.get('reasoning_effort') ?? null;
  if (effort === null) return {};
  if (!EFFORTS.includes(effort as string))
    throw badField('reasoning_effort', show(effort), `one of ${EFFORTS.join(', ')}`);
  if (!hasTemplate) throw unsupported('reasoning_effort', 'this model has no template of its own');
  if (templateSource?.includes('reasoning_effort') ?? true) return { reasoning_effort: effort };
  if (effort === 'none' && templateSource?.includes('enable_thinking')) return { enable_thinking: false };
  throw unsupported(
    'reasoning_effort',
    `the template of this model does not ask for it${templateSource?.includes('enable_thinking') ? ', but for "none"' : ''}`,
  );
}
