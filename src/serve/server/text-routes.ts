import { setImmediate as turn } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { knownNames } from '../../base/known-names.js';
import { badField } from '../api/api-error.js';
import { readChatFields } from '../api/chat.js';
import { checkTokens, Fields } from '../api/fields.js';
import { TOOL_NAMES } from '../api/tools.js';
import { decode } from '../text/detokenizer.js';
import type { Vocabulary } from '../text/vocabulary.js';
import type { ServeSettings } from './options.js';

const TOKENIZE = knownNames<Record<string, unknown>>('the body', {
  model: true,
  prompt: true,
  messages: true,
  ...TOOL_NAMES,
  chat_template_kwargs: true,
  reasoning_effort: true,
  add_special_tokens: true,
  add_generation_prompt: true,
  return_token_strs: true,
});
const DETOKENIZE = knownNames<Record<string, unknown>>('the body', { model: true, tokens: true });
const MOST_TOKENS = 2 ** 24;
/** The maximum number of tokens in an answer; writing more takes too long. */
const MOST_TOLD = 2 ** 18;
/** The number of tokens that are decoded in one turn of the event loop. */
const TEXTS_AT_ONCE = 8192;

/** The routes that tokenize and detokenize. */
export function addTextRoutes(app: FastifyInstance, { model }: ServeSettings): void {
  const { vocabulary, encoder, maxModelLen, chatPrompt } = model;

  app.post('/tokenize', async ({ body }) => {
    const fields = new Fields(body, TOKENIZE);
    const addsSpecial = fields.boolean('add_special_tokens') ?? true;
    const beginsAnswer = fields.boolean('add_generation_prompt') ?? true;
    const withTexts = fields.boolean('return_token_strs') ?? false;
    const isChat = fields.get('messages') !== undefined;
    if (isChat === (fields.get('prompt') !== undefined))
      throw badField(
        'prompt',
        fields.shown('prompt'),
        'a text where there are no messages, and absent otherwise',
      );
    const tokens = await (isChat
      ? chatPrompt({ ...readChatFields(fields, model).chat, beginsAnswer })
      : encoder.encode('prompt', fields.get('prompt'), addsSpecial));
    if (tokens.length > MOST_TOLD)
      throw badField('prompt', `a text of ${tokens.length} tokens`, `one of at most ${MOST_TOLD} tokens`);
    const texts = withTexts ? await textsOf(tokens, vocabulary) : null;
    return { count: tokens.length, max_model_len: maxModelLen, tokens: [...tokens], token_strs: texts };
  });

  app.post('/detokenize', ({ body }) => {
    const fields = new Fields(body, DETOKENIZE);
    const list = fields.list('tokens', MOST_TOKENS, 'token ids');
    if (list === undefined) throw badField('tokens', fields.shown('tokens'), 'a list of token ids');
    return { prompt: decode(vocabulary, checkTokens('tokens', list, vocabulary.size)) };
  });
}

/** The text of each token. */
async function textsOf(tokens: Int32Array, vocabulary: Vocabulary): Promise<readonly string[]> {
  const texts: string[] = [];
  for (const [i, token] of tokens.entries()) {
    if (i > 0 && i % TEXTS_AT_ONCE === 0) await turn();
    texts.push(decode(vocabulary, Int32Array.of(token)));
  }
  return texts;
}
