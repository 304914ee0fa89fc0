import { ApiError } from '../api/api-error.js';
import type { Chat, ChatTemplate } from '../api/chat.js';
import type { Encoder } from '../api/encoder.js';

const LONGEST_REASON = 500;

/**
 * The prompt of a chat, made by the model's own template.
 * @throws by rejection ApiError, with the template's message about a chat that it cannot express
 */
export async function templatePrompt(
  template: ChatTemplate,
  chat: Chat,
  encoder: Encoder,
): Promise<Int32Array> {
  // Templates omit only texts of assistants, so these do not count.
  const bytes = chat.messages.reduce(
    (sum, { role, content }) => sum + (role === 'assistant' ? 0 : Buffer.byteLength(content)),
    0,
  );
  encoder.checkLength('messages', bytes);
  let text: string;
  try {
    text = await template.render(chat);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ApiError(400, `the chat template of this model refuses: ${reason.slice(0, LONGEST_REASON)}`, {
      param: 'messages',
      code: 'chat_template',
    });
  }
  return encoder.encode('messages', text);
}
