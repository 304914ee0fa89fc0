import type { Template } from '@huggingface/jinja';
import type { Chat, ChatTemplate } from '../api/chat.js';
import type { ChatMessage } from '../api/chat-message.js';

/** What a template says by name. */
export interface TemplateTexts {
  /** The text of the token that begins a prompt (`bos_token`); empty: there is none. */
  readonly beginText?: string;
  /** The text of the token that ends a text (`eos_token`); empty: there is none. */
  readonly endText?: string;
}

/**
 * Opens a template of chats as models have it, in Jinja (`tokenizer.chat_template` of a GGUF file). A template that cannot be read refuses
 * every chat, with the reason: the model can be served all the same.
 * @param source the template; null: the model has none
 */
export async function openChatTemplate(
  source: string | null,
  texts: TemplateTexts = {},
): Promise<ChatTemplate> {
  if (source === null) return refusing('it has none; send the whole prompt to /v1/completions');
  // Only a model with a template of its own needs the library.
  const { Template } = await import('@huggingface/jinja');
  try {
    return new JinjaTemplate(new Template(source), source, texts);
  } catch (error) {
    return refusing(
      `it cannot be read (${(error as Error).message}); send the whole prompt to /v1/completions`,
    );
  }
}

function refusing(why: string): ChatTemplate {
  return {
    render() {
      throw new Error(why);
    },
  };
}

/** A template in Jinja. What it knows of a chat has the names that Hugging Face's library gave it. */
class JinjaTemplate implements ChatTemplate {
  readonly #template: Template;
  readonly #texts: TemplateTexts;
  /** Whether the template speaks of developers; to others their messages are those of the system. */
  readonly #knowsDevelopers: boolean;

  constructor(template: Template, source: string, texts: TemplateTexts) {
    this.#template = template;
    this.#texts = texts;
    this.#knowsDevelopers = source.includes('developer');
  }

  render({ messages, tools, beginsAnswer, templateArguments }: Chat): string {
    const { beginText = '', endText = '' } = this.#texts;
    return this.#template.render({
      ...templateArguments,
      messages: messages.map((message) => this.#written(message)),
      tools,
      documents: null,
      add_generation_prompt: beginsAnswer,
      bos_token: beginText,
      eos_token: endText,
    });
  }

  #written({ role, content, name, toolCalls, toolCallId }: ChatMessage): Record<string, unknown> {
    return {
      role: role === 'developer' && !this.#knowsDevelopers ? 'system' : role,
      content,
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
}
