import { ApiError } from '../api/api-error.js';
import type { Chat, ChatTemplate } from '../api/chat.js';
import type { Vocabulary } from '../text/vocabulary.js';

const LONGEST_REASON = 500;

/**
 * The prompt of a chat, by the model's own template.
 * @throws ApiError with what the template says of a chat that it cannot write
 */
export function templatePrompt(template: ChatTemplate, chat: Chat, vocabulary: Vocabulary): Int32Array {
  let text: string;
  try {
    text = template.render(chat);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ApiError(400, `the chat template of this model refuses: ${reason.slice(0, LONGEST_REASON)}`, {
      param: 'messages',
      code: 'chat_template',
    });
  }
  return vocabulary.encode(text);
}
