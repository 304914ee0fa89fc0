import { knownNames } from '../../base/known-names.js';
import type { AnswerReading } from '../answers/answer-forms.js';
import { unsupported } from './api-error.js';
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
import type { TextFormat } from './text-format.js';
import { calledFormat, schemasOf, type ToolUse } from './tools.js';

/** Fields of OpenAI's and vLLM's chats that this server does not support. */
const HARMLESS: Harmless = {
  functions: isEmpty,
  function_call: (value) => value === 'none' || value === 'auto',
  modalities: (value) => Array.isArray(value) && value.every((each) => each === 'text'),
  audio: () => false,
  prediction: () => false,
  verbosity: () => false,
  web_search_options: () => false,
  store: (value) => value === false,
  // The client's own notes, and the choice of OpenAI's servers. They mean nothing to a self-hosted
  // server.
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

/** Reads the body of `POST /v1/chat/completions`. @throws ApiError by rejection */
export async function readChat(
  body: unknown,
  model: ServedModel,
  bounds: RequestBounds,
): Promise<GenerationRequest> {
  const fields = new Fields(body, NAMES);
  refuseUnsupported(fields, HARMLESS);
  const common = readCommon(fields, model, readChatLogprobs(fields, model.sampling));
  const { maxModelLen } = model;
  const { chat, use } = readChatFields(fields, model);
  const format = readForced(use, common.format, model);
  const prompt = await model.chatPrompt({ ...chat, beginsAnswer: true });
  checkChoices(1, common.n, bounds);
  const lengths = readLengths(fields, ['max_completion_tokens', 'max_tokens'], {
    longestPrompt: prompt.length,
    maxModelLen,
    otherwise: maxModelLen,
  });
  const answer = readingOf(use, format, prompt, model);
  return {
    ...common,
    ...lengths,
    format,
    prompts: [prompt],
    echoes: null,
    scoresPrompts: false,
    answer,
    isParallel: use.isParallel,
  };
}

/** The format that constrains the answer: that of mandatory calls, or the client's own. */
function readForced(use: ToolUse, wanted: TextFormat | null, { grammar }: ServedModel): TextFormat | null {
  const called = calledFormat(use);
  if (called !== null && grammar === null)
    throw unsupported('tool_choice', 'nothing holds the answers of this model to calls of tools');
  if (called === null && use.tools !== null && wanted !== null)
    throw unsupported(
      wanted.type === 'gbnf' ? 'grammar' : 'response_format',
      'the answer is held to it as a whole, so that no tool could be called; leave the tools out, or say tool_choice "none"',
    );
  return called ?? wanted;
}

/** Says how the answers are parsed; null if they are plain text. */
function readingOf(
  { tools, choice }: ToolUse,
  format: TextFormat | null,
  prompt: Int32Array,
  { answers }: ServedModel,
): AnswerReading | null {
  if (tools !== null && choice !== 'auto') return answers.forced(choice === 'required' ? null : choice.name);
  // A text that is constrained to a format has no markers.
  return format === null ? answers.reading({ tools: tools && schemasOf(tools), prompt }) : null;
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
