import type { Chat } from '../api/chat.js';
import type { ChatMessage } from '../api/chat-message.js';
import { Template } from '../jinja/template.js';
import { leftOut } from './left-out.js';

/** What a template says by name. */
export interface TemplateTexts {
  /** The text of the token that begins a prompt (`bos_token`); empty: there is none. */
  readonly beginText?: string;
  /** The text of the token that ends a text (`eos_token`); empty: there is none. */
  readonly endText?: string;
}

/** What a process aside is asked to write. */
export interface TemplateOrder {
  /** The template, in Jinja. */
  readonly source: string;
  readonly texts: TemplateTexts;
  /** Null: the template is read, and the names of what it lacks are written, in lines. */
  readonly chat: Chat | null;
}

/** The templates that were written last, by what they are made of. */
const known = new Map<string, JinjaTemplate>();
const MOST_KNOWN = 16;

/**
 * Writes a chat by a template. Templates come with models, from strangers, so this runs in a process aside.
 * @throws Error for a template that cannot be read, or refuses the chat
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

/** A template in Jinja. What it knows of a chat has the names that Hugging Face's library gave it. */
class JinjaTemplate {
  /** What the template names that there is not. */
  readonly missing: readonly string[];
  readonly #template: Template;
  readonly #texts: TemplateTexts;
  readonly #speaksOfDevelopers: boolean;
  /** Whether it writes what developers say; where it does not, their messages are those of the system. Null: nobody asked yet. */
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

  /** The messages, those of developers as those of the system to a template that does not write them. */
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

  /** Tries it: some speak of developers in other places, and leave out or refuse what they say. */
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

/** A message as templates know it. What was thought has three names: those of Qwen and others, of vLLM, and of gpt-oss, which has it beside calls alone. */
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
