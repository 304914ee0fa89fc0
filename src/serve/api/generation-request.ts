import { show } from '../../base/errors.js';
import type { KnownNames } from '../../base/known-names.js';
import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import type { AnswerReading } from '../answers/answer-forms.js';
import { badField, unsupported } from './api-error.js';
import { checkText, checkTokens, type Fields } from './fields.js';
import { readSampling } from './sampling.js';
import type { ServedModel } from './served-model.js';
import { FORMAT_NAMES, readTextFormat, type TextFormat } from './text-format.js';

/** Limits of a request, so that one client cannot take the capacity that all clients share. */
export interface RequestBounds {
  /** The maximum number of choices of a request: `n` times the number of prompts. */
  readonly maxChoices: number;
}

/**
 * The maximum number of stop strings of a request, and the maximum length of each in characters.
 */
const MAX_STOPS = 32;
const MAX_STOP_LENGTH = 1000;
const MAX_STOP_TOKENS = 256;
const MAX_NAME_LENGTH = 256;
const MAX_TOKENS = 2 ** 31 - 1;

/** The fields that completions and chats share, validated. */
export interface GenerationRequest {
  /** The prompts, as tokens. */
  readonly prompts: readonly Int32Array[];
  /** The number of choices for each prompt. */
  readonly n: number;
  /** The maximum number of tokens of each choice. 0: each choice is only its echo. */
  readonly maxTokens: number;
  readonly minTokens: number;
  /** Strings that end a text. */
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  /** Whether the text includes the stop string that ends it. */
  readonly keepsStop: boolean;
  readonly ignoreEos: boolean;
  readonly priority: number | undefined;
  readonly cacheSalt: string | undefined;
  /** The sampling parameters, with the defaults of the model. */
  readonly sampling: SamplingParams;
  /** The format that constrains the texts; null if none. */
  readonly format: TextFormat | null;
  /** Whether chunks are sent while the text is generated. */
  readonly isStreamed: boolean;
  /** Whether the stream ends with the token counts. */
  readonly includesUsage: boolean;
  /** The beginning of each choice, by prompt: the prompt itself if it is echoed. Null if not. */
  readonly echoes: readonly string[] | null;
  /**
   * Says how the answers are split into reasoning, text and tool calls; null if they are plain
   * text.
   */
  readonly answer: AnswerReading | null;
  /** Whether an answer may have several calls. */
  readonly isParallel: boolean;
  /** Whether the log-probabilities of the echoed tokens are wanted. */
  readonly scoresPrompts: boolean;
}

/** The names of fields that completions and chats share. */
export const GENERATION_NAMES = {
  model: true,
  stream: true,
  stream_options: true,
  n: true,
  max_tokens: true,
  min_tokens: true,
  stop: true,
  stop_token_ids: true,
  include_stop_str_in_output: true,
  ignore_eos: true,
  priority: true,
  cache_salt: true,
  user: true,
  temperature: true,
  top_p: true,
  top_k: true,
  min_p: true,
  seed: true,
  frequency_penalty: true,
  presence_penalty: true,
  repetition_penalty: true,
  logit_bias: true,
  logprobs: true,
  ...FORMAT_NAMES,
};

const STREAM_OPTIONS: KnownNames = {
  what: 'stream_options',
  names: new Set(['include_usage', 'include_obfuscation']),
  words: new Map(),
};

/** Values of unsupported fields that are accepted because they request nothing. */
export type Harmless = Readonly<Record<string, (value: unknown) => boolean>>;

/** Refuses unsupported fields, unless their value requests nothing. @throws ApiError */
export function refuseUnsupported(fields: Fields, harmless: Harmless): void {
  for (const [name, isHarmless] of Object.entries(harmless)) {
    const value = fields.get(name);
    if (value !== undefined && !isHarmless(value))
      throw unsupported(fields.nameOf(name), `this server does not do what ${show(value)} asks for`);
  }
}

/** The part of a request that completions and chats share. */
export type CommonPart = Omit<
  GenerationRequest,
  'prompts' | 'maxTokens' | 'minTokens' | 'echoes' | 'scoresPrompts' | 'answer' | 'isParallel'
>;

/**
 * Reads the fields that completions and chats share.
 * @param logprobs the number of most likely tokens to report; undefined if none
 * @throws ApiError
 */
export function readCommon(fields: Fields, model: ServedModel, logprobs: number | undefined): CommonPart {
  const isStreamed = fields.boolean('stream') ?? false;
  const options = fields.object('stream_options', STREAM_OPTIONS);
  if (options !== undefined && !isStreamed)
    throw badField('stream_options', 'an object', 'absent where stream is not true');
  // The server never sends this padding. It hides the lengths of tokens from an eavesdropper and
  // does not change an answer.
  options?.boolean('include_obfuscation');
  // The user's name has no effect here.
  fields.text('user', MAX_NAME_LENGTH);
  return {
    n: fields.integer('n', 1, 1024) ?? 1,
    stop: readStops(fields),
    stopTokenIds: readStopTokens(fields, model),
    keepsStop: fields.boolean('include_stop_str_in_output') ?? false,
    ignoreEos: fields.boolean('ignore_eos') ?? false,
    priority: fields.integer('priority', -(2 ** 31), 2 ** 31 - 1),
    cacheSalt: readSalt(fields),
    sampling: {
      ...model.samplingDefaults,
      ...readSampling(fields, model.sampling, model.vocabulary.size),
      ...(logprobs !== undefined && { logprobs }),
    },
    format: readTextFormat(fields, model.grammar !== null),
    isStreamed,
    includesUsage: options?.boolean('include_usage') ?? false,
  };
}

/**
 * Reads the maximum and minimum number of tokens of a choice.
 * @param names fields for the maximum; the first that is present counts
 */
export function readLengths(
  fields: Fields,
  names: readonly string[],
  limits: {
    readonly longestPrompt: number;
    readonly maxModelLen: number;
    readonly otherwise: number;
    /** The smallest maximum that is allowed. Default 1. */
    readonly least?: number;
  },
): { maxTokens: number; minTokens: number } {
  const { longestPrompt, maxModelLen, otherwise, least = 1 } = limits;
  const room = maxModelLen - longestPrompt;
  let maxTokens: number | undefined;
  for (const name of names) {
    const value = fields.integer(name, least, MAX_TOKENS);
    maxTokens ??= value;
    if (value !== undefined && value > room && room > 0)
      throw badField(
        name,
        `${value}`,
        `at most ${room}: the prompt has ${longestPrompt} of the model's ${maxModelLen} tokens`,
      );
  }
  const most = maxTokens ?? Math.max(1, Math.min(otherwise, room));
  const minTokens = fields.integer('min_tokens', 0, MAX_TOKENS) ?? 0;
  if (minTokens > most) throw badField('min_tokens', `${minTokens}`, `at most ${most}, the most tokens`);
  return { maxTokens: most, minTokens };
}

/** Checks the number of choices. @throws ApiError */
export function checkChoices(numPrompts: number, n: number, { maxChoices }: RequestBounds): void {
  if (numPrompts * n <= maxChoices) return;
  throw badField('n', `${n} for ${numPrompts} prompts`, `at most ${maxChoices} choices in all`);
}

function readStops(fields: Fields): readonly string[] {
  const stop = fields.get('stop');
  if (typeof stop === 'string') return stop === '' ? [] : [checkText('stop', stop, MAX_STOP_LENGTH)];
  const list = fields.list('stop', MAX_STOPS, 'strings, or a string') ?? [];
  return list.map((each, i) => checkText(`stop[${i}]`, each, MAX_STOP_LENGTH)).filter((each) => each !== '');
}

function readStopTokens(fields: Fields, { vocabulary }: ServedModel): readonly number[] {
  const list = fields.list('stop_token_ids', MAX_STOP_TOKENS, 'token ids') ?? [];
  return [...checkTokens('stop_token_ids', list, vocabulary.size)];
}

function readSalt(fields: Fields): string | undefined {
  const salt = fields.text('cache_salt', MAX_NAME_LENGTH);
  if (salt === '') throw badField('cache_salt', '""', 'a string that is not empty');
  return salt;
}
