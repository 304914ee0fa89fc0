import { AsideLimitError, sharedAside } from '../../base/scripts/aside.js';
import type { Chat, ChatTemplate } from '../api/chat.js';
import type { TemplateOrder, TemplateTexts } from './jinja-template.js';

export type { TemplateTexts };

/** The time limit for rendering a chat, in milliseconds. */
const RENDER_MS = 5000;
/** The maximum length of the rendered text, in characters. */
const MOST_WRITTEN = 2 ** 24;

const RENDER = { from: import.meta.url, module: 'jinja-template', name: 'renderChat' };

/**
 * Opens a model's chat template in Jinja (`tokenizer.chat_template` of a GGUF file). A template
 * that cannot be parsed refuses every chat with the reason, but the model can still be served.
 * Templates come with models from strangers, so they are parsed and rendered in a separate process,
 * for at most 5 seconds per chat.
 * @param source the template; null if the model has none
 */
export async function openChatTemplate(
  source: string | null,
  texts: TemplateTexts = {},
): Promise<ChatTemplate> {
  if (source === null) return refusing('it has none; send the whole prompt to /v1/completions');
  const write = (chat: Chat | null): Promise<string> =>
    sharedAside.run<TemplateOrder, string>(
      RENDER,
      { source, texts, chat },
      { timeMs: RENDER_MS, maxOutput: MOST_WRITTEN },
    );
  let missing: readonly string[];
  try {
    missing = (await write(null)).split('\n').filter((name) => name !== '');
  } catch (error) {
    return refusing(
      `it cannot be read (${(error as Error).message}); send the whole prompt to /v1/completions`,
    );
  }
  return {
    source,
    missing,
    render: (chat) =>
      write(chat).catch((error: unknown) => {
        throw error instanceof AsideLimitError ? new Error(`it is broken off: ${error.message}`) : error;
      }),
  };
}

function refusing(why: string): ChatTemplate {
  return {
    render: () => Promise.reject(new Error(why)),
  };
}
