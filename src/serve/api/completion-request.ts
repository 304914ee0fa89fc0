import { show } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import { decode } from '../text/detokenizer.js';
import { badField } from './api-error.js';
import { checkTokens, Fields } from './fields.js';
import {
  checkChoices,
  GENERATION_NAMES,
  type GenerationRequest,
  type Harmless,
  type RequestBounds,
  readCommon,
  readLengths,
  refuseUnsupported,
} from './generation-request.js';
import { readLogprobs, readsPrompts } from './sampling.js';
import type { ServedModel } from './served-model.js';

/** The default maximum number of tokens of a completion, as in OpenAI's API. */
const DEFAULT_TOKENS = 16;

/** Fields of OpenAI's and vLLM's completions that this server does not support. */
const HARMLESS: Harmless = {
  best_of: (value) => value === 1,
  suffix: (value) => value === '',
  use_beam_search: (value) => value === false,
  prompt_logprobs: () => false,
  skip_special_tokens: (value) => value === true,
  spaces_between_special_tokens: (value) => typeof value === 'boolean',
};

const NAMES = knownNames<Record<string, unknown>>(
  'the body',
  { ...GENERATION_NAMES, ...HARMLESS, prompt: true, echo: true, add_special_tokens: true },
  { messages: 'it belongs to /v1/chat/completions', max_completion_tokens: 'it is max_tokens here' },
);

/** Reads the body of `POST /v1/completions`. @throws ApiError by rejection */
export async function readCompletion(
  body: unknown,
  model: ServedModel,
  bounds: RequestBounds,
): Promise<GenerationRequest> {
  const fields = new Fields(body, NAMES);
  refuseUnsupported(fields, HARMLESS);
  const logprobs = readLogprobs(fields, model.sampling);
  const common = readCommon(fields, model, logprobs);
  const isEchoed = fields.boolean('echo') ?? false;
  const scoresPrompts = readsPrompts(isEchoed, logprobs, model.sampling);
  const prompts = await readTexts(fields, 'prompt', model, bounds.maxChoices);
  checkChoices(prompts.length, common.n, bounds);
  const longestPrompt = Math.max(...prompts.map(({ length }) => length));
  const { maxModelLen } = model;
  const lengths = readLengths(fields, ['max_tokens'], {
    longestPrompt,
    maxModelLen,
    otherwise: DEFAULT_TOKENS,
    // Only a request that echoes its prompt may ask for 0 tokens: the answer is then the prompt
    // alone.
    least: isEchoed ? 0 : 1,
  });
  const echoes = isEchoed ? prompts.map((tokens) => decode(model.vocabulary, tokens)) : null;
  return { ...common, ...lengths, prompts, echoes, scoresPrompts, answer: null, isParallel: true };
}

/** Reads a text, its tokens, or a list of texts or of lists of tokens. */
export async function readTexts(
  fields: Fields,
  name: string,
  model: ServedModel,
  most: number,
): Promise<Int32Array[]> {
  const given = fields.get(name);
  const addsSpecial = fields.boolean('add_special_tokens') ?? true;
  const encode = async (field: string, text: unknown, length?: number): Promise<Int32Array> => {
    // A text without tokens of its own is not a prompt, even if special tokens are added in front.
    if (text === '') throw badField(field, '""', 'a text that is not empty');
    return checkPrompt(field, await model.encoder.encode(field, text, addsSpecial, length));
  };
  if (typeof given === 'string') return [await encode(name, given)];
  if (!Array.isArray(given) || given.length === 0)
    throw badField(
      name,
      fields.shown(name),
      'a text, a list of token ids, or a list of at least one of either',
    );
  if (typeof given[0] === 'number') return [readTokens(name, given, model)];
  if (given.length > most)
    throw badField(name, show(given), `at most ${most} ${name === 'prompt' ? 'prompts' : 'texts'}`);
  const length = given.reduce((sum, each) => sum + (typeof each === 'string' ? each.length : 0), 0);
  const prompts: Int32Array[] = [];
  for (const [i, each] of given.entries()) {
    const field = `${name}[${i}]`;
    prompts.push(Array.isArray(each) ? readTokens(field, each, model) : await encode(field, each, length));
  }
  return prompts;
}

function readTokens(name: string, list: readonly unknown[], { vocabulary }: ServedModel): Int32Array {
  return checkPrompt(name, checkTokens(name, list, vocabulary.size));
}

function checkPrompt(name: string, tokens: Int32Array): Int32Array {
  if (tokens.length === 0) throw badField(name, 'nothing', 'at least one token');
  return tokens;
}
