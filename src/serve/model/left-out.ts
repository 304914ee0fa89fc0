import type { Chat } from '../api/chat.js';
import type { ChatMessage } from '../api/chat-message.js';

/** A word that no template changes, because it has only letters and digits. */
const wordOf = (n: number): string => `zq${n}leftout${n}qz`;

/**
 * Finds a part of a chat that a template omits. Many templates silently omit tools, calls, all
 * calls but one, or answers of tools. To find out, the chat is rendered again with one more tool
 * and with marker words in calls and messages. The rendered text is then searched for these words.
 *
 * Plain chats are not checked: every template writes a leading system message and the messages of
 * users and assistants. Texts of assistants are not checked either: templates omit their reasoning,
 * or their text beside calls.
 * @param write renders a chat with the template
 * @returns a description of the first omitted part; null if there is none, or if the template
 * refuses the marker words
 */
export function leftOut(chat: Chat, write: (chat: Chat) => string): string | null {
  const { messages, tools } = chat;
  const isPlain = messages.every(isPlainMessage) && messages.some(({ role }) => role === 'user');
  if (tools === null && isPlain) return null;
  /** By marker word: a description of its place. */
  const places = new Map<string, string>();
  const place = (what: string): string => {
    const word = wordOf(places.size);
    places.set(word, what);
    return word;
  };
  const marked: Chat = {
    ...chat,
    tools: tools && [...tools, { ...tools[0], function: { ...tools[0].function, name: place('the tools') } }],
    messages: messages.map((message, i): ChatMessage => {
      const { role, toolCalls } = message;
      const content = role === 'assistant' ? message.content : place(`messages[${i}], whose role is ${role}`);
      if (toolCalls === undefined) return { ...message, content };
      const calls = toolCalls.map((call) => ({
        ...call,
        arguments: { value: place(`the call of "${call.name}" in messages[${i}]`) },
      }));
      return { ...message, content, toolCalls: calls };
    }),
  };
  let text: string;
  try {
    text = write(marked);
  } catch {
    return null;
  }
  for (const [word, what] of places) if (!text.includes(word)) return what;
  return null;
}

function isPlainMessage({ role, toolCalls }: ChatMessage, index: number): boolean {
  if (role === 'system') return index === 0;
  return (role === 'user' || role === 'assistant') && toolCalls === undefined;
}
