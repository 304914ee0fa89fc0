import type { Choice } from './choice.js';
import type { Usage } from './generation.js';
import type { LikelyToken, TextLogprob } from './likely-tokens.js';
import type { AnswerParts } from './read-answer.js';

/** What all bodies of a reply have. */
export interface ReplyHead {
  readonly id: string;
  /** When the request came, in seconds since 1970. */
  readonly created: number;
  /** The name of the model. */
  readonly model: string;
  /** Whether its stream ends with the counts of tokens. Every other chunk then says that it has none, as OpenAI's do. */
  readonly includesUsage: boolean;
}

/** The bodies of one way to generate: whole ones, and the chunks of a stream, which are texts of server-sent events. */
export interface Bodies {
  /** The body of a reply that is not streamed. */
  whole(head: ReplyHead, choices: readonly Choice[], usage: Usage): object;
  /**
   * What a chunk has before its piece of text, which follows as the inside of a JSON string, and what it has behind that, which is the
   * same for all choices.
   * @param index of the choice
   */
  around(head: ReplyHead, index: number): [start: string, end: string];
  /** A chunk of a choice that says how likely its tokens were, or has more than text. @param piece of its text */
  chunk(head: ReplyHead, choice: Choice, piece: string, parts: AnswerParts | null): string;
  /** The first chunk of a choice; empty if it has none. */
  first(head: ReplyHead, index: number): string;
  /** The last chunk of a choice. @param piece the rest of its text */
  last(head: ReplyHead, choice: Choice, piece: string, parts: AnswerParts | null): string;
  /** The chunk that says how many tokens there were. */
  usage(head: ReplyHead, usage: Usage): string;
}

/** One server-sent event. */
export function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** What ends a stream of chunks. */
export const DONE = 'data: [DONE]\n\n';

/** Marks where the piece of text stands in a chunk. */
const HERE = '\u0000';
const HERE_IN_JSON = JSON.stringify(HERE);

/** What a chunk has around its piece of text. @param chunk whose text is `HERE` */
function partsAround(chunk: string): [start: string, end: string] {
  const at = chunk.indexOf(HERE_IN_JSON);
  return [chunk.slice(0, at + 1), chunk.slice(at + HERE_IN_JSON.length - 1)];
}

/** A chunk. @param choices the one that it is of, or none @param usage null in all chunks but the last */
type Chunk = (head: ReplyHead, choices: readonly object[], usage?: Usage | null) => string;

function chunksOf(object: string): Chunk {
  return ({ id, created, model, includesUsage }, choices, usage = null) =>
    event({ id, object, created, model, choices, ...(includesUsage && { usage }) });
}

const textChunk = chunksOf('text_completion');
const chatChunk = chunksOf('chat.completion.chunk');

const GOES_ON = { logprobs: null, finish_reason: null };

/** Bodies of `/v1/completions`. */
export const COMPLETION_BODIES: Bodies = {
  whole: ({ id, created, model }, choices, usage) => ({
    id,
    object: 'text_completion',
    created,
    model,
    choices: choices.map((choice) => ({
      index: choice.index,
      text: choice.drainText(),
      ...endFields(choice, completionLogprobs(choice)),
    })),
    usage,
  }),
  around: (head, index) => partsAround(textChunk(head, [{ index, text: HERE, ...GOES_ON }])),
  chunk: (head, choice, piece) => {
    const logprobs = completionLogprobs(choice);
    return textChunk(head, [{ index: choice.index, text: piece, ...GOES_ON, logprobs }]);
  },
  first: () => '',
  last: (head, choice, piece) => {
    const end = endFields(choice, completionLogprobs(choice));
    return textChunk(head, [{ index: choice.index, text: piece, ...end }]);
  },
  usage: (head, usage) => textChunk(head, [], usage),
};

/** Bodies of `/v1/chat/completions`. */
export const CHAT_BODIES: Bodies = {
  whole: ({ id, created, model }, choices, usage) => ({
    id,
    object: 'chat.completion',
    created,
    model,
    choices: choices.map((choice) => ({
      index: choice.index,
      message: messageOf(choice),
      ...endFields(choice, chatLogprobs(choice)),
    })),
    usage,
  }),
  around: (head, index) => partsAround(chatChunk(head, [{ index, delta: { content: HERE }, ...GOES_ON }])),
  chunk: (head, choice, piece, parts) => {
    const delta = deltaOf(piece, parts);
    const logprobs = chatLogprobs(choice);
    return chatChunk(head, [{ index: choice.index, delta, ...GOES_ON, logprobs }]);
  },
  first: (head, index) => {
    return chatChunk(head, [{ index, delta: { role: 'assistant', content: '' }, ...GOES_ON }]);
  },
  last: (head, choice, piece, parts) => {
    const delta = deltaOf(piece, parts);
    const end = endFields(choice, chatLogprobs(choice));
    return chatChunk(head, [{ index: choice.index, delta, ...end }]);
  },
  usage: (head, usage) => chatChunk(head, [], usage),
};

/** The message of an assistant. One that calls tools need not say anything. */
function messageOf(choice: Choice): object {
  const content = choice.drainText();
  const { reasoning = '', calls = [] } = choice.drainParts() ?? {};
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** What a chunk adds to such a message. Calls come whole, each with its place among all of them. */
function deltaOf(piece: string, parts: AnswerParts | null): object {
  const { reasoning = '', calls = [], firstCall = 0 } = parts ?? {};
  return {
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(piece !== '' && { content: piece }),
    ...(calls.length > 0 && { tool_calls: calls.map((call, i) => ({ index: firstCall + i, ...call })) }),
  };
}

/** How a choice ended, as bodies say it. */
function endFields({ end, hasCalled }: Choice, logprobs: object | null): object {
  const reason = end?.finishReason === 'stop' && hasCalled ? 'tool_calls' : end?.finishReason;
  return { logprobs, finish_reason: reason ?? null, stop_reason: end?.stopReason ?? null };
}

/** How likely the tokens were that came since this was said last, as chats say it; null: nobody wants to know. */
function chatLogprobs(choice: Choice): object | null {
  const tokens = choice.drainLikely();
  if (tokens === null) return null;
  const named = ({ text, bytes, logprob }: TextLogprob) => ({ token: text, logprob, bytes });
  return {
    content: tokens.map((token) => ({ ...named(token), top_logprobs: token.top.map(named) })),
    refusal: null,
  };
}

/** The same as completions say it: lists with an item for each token. */
function completionLogprobs(choice: Choice): object | null {
  const tokens = choice.drainLikely();
  if (tokens === null) return null;
  const byText = ({ top }: LikelyToken) =>
    Object.fromEntries(top.map(({ text, logprob }) => [text, logprob]));
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map((token) =>
      token.logprob === null ? null : { ...byText(token), [token.text]: token.logprob },
    ),
    text_offset: tokens.map(({ offset }) => offset),
  };
}
