import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import { badField, unsupported } from './api-error.js';
import { type ChatMessage, readMessages } from './chat-message.js';
import type { Fields } from './fields.js';
import { type ChatTool, readTools, TOOL_NAMES, type ToolUse } from './tools.js';

/** The parts of a chat that the prompt is made of. */
export interface Chat {
  readonly messages: readonly ChatMessage[];
  /** The tools that the model may call; null if none. */
  readonly tools: readonly ChatTool[] | null;
  /** Whether the prompt ends where the model's answer begins. */
  readonly beginsAnswer: boolean;
  /**
   * The client's arguments for the template itself (`chat_template_kwargs`), such as
   * `enable_thinking`.
   */
  readonly templateArguments: Readonly<Record<string, unknown>>;
}

/** A model's own chat template, which `openChatTemplate` makes from its source. */
export interface ChatTemplate {
  /**
   * The prompt of a chat, as text or as a promise of text.
   * @throws an error, also by rejection, whose message is sent to the client: the template cannot
   * express the chat, or there is no template
   */
  render(chat: Chat): string | Promise<string>;
  /**
   * The source of the template. It shows in which format the model calls tools and writes its
   * reasoning. Absent or null if unknown.
   */
  readonly source?: string | null;
  /**
   * Descriptions of filters and tests that the template names but that do not exist. A chat that
   * needs them is refused.
   */
  readonly missing?: readonly string[];
}

/** Facts about the template of a model. */
interface TemplateFacts {
  /**
   * Whether the model has its own template. Only a template of its own knows how tools are written.
   */
  readonly hasTemplate: boolean;
  /** The source of the template; null if unknown. */
  readonly templateSource: string | null;
}

/** The reasoning efforts, by OpenAI's names. */
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** Fields about messages, tools and templates, under the names of OpenAI's and vLLM's APIs. */
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
  // Arguments for the template itself come later, so that they override the effort.
  const templateArguments = { ...readEffort(fields, template), ...given };
  const use = readTools(fields, hasTemplate);
  return { chat: { messages, tools: use.tools, templateArguments }, use };
}

/** The template's arguments for the reasoning effort. */
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
