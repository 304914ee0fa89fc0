import { knownNames } from '../../base/known-names.js';
import { CHAT_NAMES, readChatFields } from './chat.js';
import { Fields } from './fields.js';
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
import { readChatLogprobs } from './sampling.js';
import type { ServedModel } from './served-model.js';

/** What OpenAI's and vLLM's chats have, and this server has not. */
const HARMLESS: Harmless = {
  functions: isEmpty,
  function_call: (value) => value === 'none' || value === 'auto',
  modalities: (value) => Array.isArray(value) && value.every((each) => each === 'text'),
  audio: () => false,
  prediction: () => false,
  reasoning_effort: () => false,
  verbosity: () => false,
  web_search_options: () => false,
  store: (value) => value === false,
  // Notes of the client for itself, and where OpenAI would compute: nothing that a server of one's own could do otherwise.
  metadata: (value) => typeof value === 'object',
  service_tier: (value) => value === 'auto' || value === 'default',
  safety_identifier: (value) => typeof value === 'string',
  prompt_cache_key: (value) => typeof value === 'string',
  use_beam_search: (value) => value === false,
  prompt_logprobs: () => false,
  echo: (value) => value === false,
  add_generation_prompt: (value) => value === true,
  continue_final_message: (value) => value === false,
  chat_template: () => false,
  skip_special_tokens: (value) => value === true,
  spaces_between_special_tokens: (value) => typeof value === 'boolean',
};

const NAMES = knownNames<Record<string, unknown>>(
  'the body',
  { ...GENERATION_NAMES, ...CHAT_NAMES, ...HARMLESS, top_logprobs: true, max_completion_tokens: true },
  { prompt: 'it belongs to /v1/completions' },
);

/** Reads the body of `POST /v1/chat/completions`. @throws ApiError */
export function readChat(body: unknown, model: ServedModel, bounds: RequestBounds): GenerationRequest {
  const fields = new Fields(body, NAMES);
  refuseUnsupported(fields, HARMLESS);
  const common = readCommon(fields, model, readChatLogprobs(fields, model.sampling));
  const { maxModelLen } = model;
  const prompt = model.chatPrompt({ ...readChatFields(fields, model.hasTemplate), beginsAnswer: true });
  checkChoices(1, common.n, bounds);
  const lengths = readLengths(fields, ['max_completion_tokens', 'max_tokens'], {
    longestPrompt: prompt.length,
    maxModelLen,
    otherwise: maxModelLen,
  });
  return { ...common, ...lengths, prompts: [prompt], echoes: null, scoresPrompts: false };
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
