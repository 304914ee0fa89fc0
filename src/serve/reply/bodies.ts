import type { Choice } from './choice.js';
import type { Usage } from './generation.js';
import type { LikelyToken, TextLogprob } from './likely-tokens.js';
import type { AnswerParts } from './read-answer.js';

/** The fields that all bodies of a reply share. */
export interface ReplyHead {
  readonly id: string;
  /** When the request came, in seconds since 1970. */
  readonly created: number;
  /** The name of the model. */
  readonly model: string;
  /**
   * Whether the stream ends with the token counts. All other chunks then have a null `usage`, as
   * OpenAI's do.
   */
  readonly includesUsage: boolean;
}

/** The bodies of one API: whole bodies, and the chunks of a stream as server-sent events. */
export interface Bodies {
  /** The body of a reply that is not streamed. */
  whole(head: ReplyHead, choices: readonly Choice[], usage: Usage): object;
  /**
   * The parts of a chunk around its piece of text. The piece is inserted as the inside of a JSON
   * string. The end is the same for all choices.
   * @param index of the choice
   */
  around(head: ReplyHead, index: number): [start: string, end: string];
  /** A chunk with log-probabilities, or with more than text. @param piece of the text */
  chunk(head: ReplyHead, choice: Choice, piece: string, parts: AnswerParts | null): string;
  /** The first chunk of a choice; empty if there is none. */
  first(head: ReplyHead, index: number): string;
  /** The last chunk of a choice. @param piece the rest of the text */
  last(head: ReplyHead, choice: Choice, piece: string, parts: AnswerParts | null): string;
  /** The chunk with the token counts. */
  usage(head: ReplyHead, usage: Usage): string;
}

/** One server-sent event. */
export function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** The end of a stream of chunks. */
export const DONE = 'data: [DONE]\n\n';

/** A placeholder for the piece of text in a chunk. */
const HERE = '\u0000';
const HERE_IN_JSON = JSON.stringify(HERE);

/** The parts of a chunk around its piece of text. @param chunk whose text is `HERE` */
function partsAround(chunk: string): [start: string, end: string] {
  const at = chunk.indexOf(HERE_IN_JSON);
  return [chunk.slice(0, at + 1), chunk.slice(at + HERE_IN_JSON.length - 1)];
}

/**
 * Makes a chunk.
 * @param choices the choice of the chunk, or empty
 * @param usage null in all chunks but the last
 */
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

/** The message of an assistant. A message with tool calls may have no text. */
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

/** The delta of a chunk. Calls are complete, each with its index among all calls. */
function deltaOf(piece: string, parts: AnswerParts | null): object {
  const { reasoning = '', calls = [], firstCall = 0 } = parts ?? {};
  return {
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(piece !== '' && { content: piece }),
    ...(calls.length > 0 && { tool_calls: calls.map((call, i) => ({ index: firstCall + i, ...call })) }),
  };
}

/** The fields that say how a choice ended. */
function endFields({ end, hasCalled }: Choice, logprobs: object | null): object {
  const reason = end?.finishReason === 'stop' && hasCalled ? 'tool_calls' : end?.finishReason;
  return { logprobs, finish_reason: reason ?? null, stop_reason: end?.stopReason ?? null };
}

/**
 * The log-probabilities of the tokens since the last call, in the format of chats; null if nobody
 * requested them.
 */
function chatLogprobs(choice: Choice): object | null {
  const tokens = choice.drainLikely();
  if (tokens === null) return null;
  const named = ({ text, bytes, logprob }: TextLogprob) => ({ token: text, logprob, bytes });
  return {
    content: tokens.map((token) => ({ ...named(token), top_logprobs: token.top.map(named) })),
    refusal: null,
  };
}

/** The same in the format of completions: lists with an item for each token. */
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
