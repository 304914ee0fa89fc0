import type { Chat } from '../api/chat.js';
import type { ChatMessage } from '../api/chat-message.js';
import { Template } from '../jinja/template.js';
import { leftOut } from './left-out.js';

/** Texts that a template refers to by name. */
export interface TemplateTexts {
  /** The text of the token that begins a prompt (`bos_token`); empty if there is none. */
  readonly beginText?: string;
  /** The text of the token that ends a text (`eos_token`); empty if there is none. */
  readonly endText?: string;
}

/** A task for the separate process. */
export interface TemplateOrder {
  /** The template, in Jinja. */
  readonly source: string;
  readonly texts: TemplateTexts;
  /**
   * The chat to render. Null: the template is only parsed, and the result lists the names of its
   * missing filters and tests, one per line.
   */
  readonly chat: Chat | null;
}

/** The most recently used templates, by source and texts. */
const known = new Map<string, JinjaTemplate>();
const MOST_KNOWN = 16;

/**
 * Renders a chat with a template. Templates come with models from strangers, so this runs in a
 * separate process.
 * @throws Error for a template that cannot be parsed, or that refuses the chat
 */
export function renderChat({ source, texts, chat }: TemplateOrder): string {
  const key = JSON.stringify([source, texts]);
  let template = known.get(key);
  if (template === undefined) {
    if (known.size === MOST_KNOWN) known.clear();
    template = new JinjaTemplate(new Template(source), source, texts);
    known.set(key, template);
  }
  return chat === null ? template.missing.join('\n') : template.render(chat);
}

const PROBE = 'zqdevelopersayszq';

/** A Jinja template. The variables of a chat have the names of Hugging Face's library. */
class JinjaTemplate {
  /** Filters and tests that the template names but that do not exist. */
  readonly missing: readonly string[];
  readonly #template: Template;
  readonly #texts: TemplateTexts;
  readonly #speaksOfDevelopers: boolean;
  /**
   * Whether the template writes messages of developers. If not, they become messages of the system.
   * Null: not tested yet.
   */
  #knowsDevelopers: boolean | null = null;

  constructor(template: Template, source: string, texts: TemplateTexts) {
    this.#template = template;
    this.missing = template.missing;
    this.#texts = texts;
    this.#speaksOfDevelopers = source.includes('developer');
  }

  render(chat: Chat): string {
    const asked = { ...chat, messages: this.#heard(chat) };
    const text = this.#write(asked);
    const missing = leftOut(asked, (marked) => this.#write(marked));
    if (missing === null) return text;
    throw new Error(
      `it leaves out ${missing}, of which the model would not know; say it in another message, or serve the model with another template`,
    );
  }

  #write({ messages, tools, beginsAnswer, templateArguments }: Chat): string {
    const { beginText = '', endText = '' } = this.#texts;
    return this.#template.render({
      ...templateArguments,
      messages: messages.map(written),
      tools,
      documents: null,
      add_generation_prompt: beginsAnswer,
      bos_token: beginText,
      eos_token: endText,
    });
  }

  /**
   * The messages. For a template that does not write messages of developers, they become messages
   * of the system.
   */
  #heard({ messages }: Chat): readonly ChatMessage[] {
    if (messages.every(({ role }) => role !== 'developer') || this.#asksDevelopers()) return messages;
    return messages.map((message) =>
      message.role === 'developer' ? { ...message, role: 'system' } : message,
    );
  }

  #asksDevelopers(): boolean {
    this.#knowsDevelopers ??= this.#speaksOfDevelopers && this.#writesDevelopers();
    return this.#knowsDevelopers;
  }

  /**
   * Tests it by rendering a chat: some templates mention developers in other places, and omit or
   * refuse their messages.
   */
  #writesDevelopers(): boolean {
    const messages = [
      { role: 'developer', content: PROBE, name: undefined },
      { role: 'user', content: 'Hello', name: undefined },
    ] as const;
    try {
      const chat = { messages, tools: null, beginsAnswer: true, templateArguments: {} };
      return this.#write(chat).includes(PROBE);
    } catch {
      return false;
    }
  }
}

/**
 * A message as templates know it. Reasoning has three names: Qwen's and others', vLLM's, and
 * gpt-oss's, which allows it only beside calls.
 */
function written({
  role,
  content,
  reasoning,
  name,
  toolCalls,
  toolCallId,
}: ChatMessage): Record<string, unknown> {
  return {
    role,
    content,
    ...(reasoning !== undefined && { reasoning_content: reasoning, reasoning }),
    ...(reasoning !== undefined && toolCalls !== undefined && content === '' && { thinking: reasoning }),
    ...(name !== undefined && { name }),
    ...(toolCallId !== undefined && { tool_call_id: toolCallId }),
    ...(toolCalls !== undefined && {
      tool_calls: toolCalls.map((call) => ({
        ...(call.id !== undefined && { id: call.id }),
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      })),
    }),
  };
}
