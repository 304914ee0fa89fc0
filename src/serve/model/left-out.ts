import type { Chat } from '../api/chat.js';
import type { ChatMessage } from '../api/chat-message.js';

/** A word that no template changes: it has letters and digits alone. */
const wordOf = (n: number): string => `zq${n}leftout${n}qz`;

/**
 * The parts of a chat that a template does not write: many know no tools, no calls of them or one alone, or no answers of tools, and leave them out
 * without a word. The chat is written once more, with one more tool and words of its own in calls and messages, and these are looked for.
 *
 * Plain chats are not looked at: every template writes a system message in front, and what users and assistants say. Neither is the text of an
 * assistant: templates leave out what it thought, or what it said beside its calls.
 * @param write what the template makes of a chat
 * @returns the first such part, in words; null: there is none, or the template refuses such words
 */
export function leftOut(chat: Chat, write: (chat: Chat) => string): string | null {
  const { messages, tools } = chat;
  const isPlain = messages.every(isPlainMessage) && messages.some(({ role }) => role === 'user');
  if (tools === null && isPlain) return null;
  /** By the word: what it stands for. */
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
