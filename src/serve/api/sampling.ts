import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import { badField, unsupported } from './api-error.js';
import type { Fields } from './fields.js';

/** A sampling parameter: its range, and the values that have no effect. */
interface Range {
  readonly min: number;
  readonly max: number;
  readonly neutral: readonly number[];
  readonly isInteger?: true;
  /** Whether the parameter has no effect under greedy sampling. */
  readonly onlyRandom?: true;
}

const LARGE = 2 ** 53 - 1;

/** The name of a sampling parameter. */
export type SamplingName = keyof SamplingParams;

/** The sampling parameters that are numbers and mean the same in every route. */
type NumberName = Exclude<SamplingName, 'logit_bias' | 'logprobs' | 'prompt_logprobs'>;

/** The sampling parameters, with vLLM's and OpenAI's names and ranges. */
const RANGES: Readonly<Record<NumberName, Range>> = {
  // A model that samples greedily already does what a temperature of 0 asks for.
  temperature: { min: 0, max: 2, neutral: [0] },
  top_p: { min: 0, max: 1, neutral: [1], onlyRandom: true },
  top_k: { min: -1, max: 2 ** 31 - 1, neutral: [-1, 0], isInteger: true, onlyRandom: true },
  min_p: { min: 0, max: 1, neutral: [0], onlyRandom: true },
  seed: { min: -LARGE, max: LARGE, neutral: [], isInteger: true, onlyRandom: true },
  frequency_penalty: { min: -2, max: 2, neutral: [0] },
  presence_penalty: { min: -2, max: 2, neutral: [0] },
  repetition_penalty: { min: 0, max: 2, neutral: [1] },
};

/**
 * The sampling parameters that a model supports. Others are refused, unless their value has no
 * effect. `ignore`: all are accepted and none is used, for a model whose texts mean nothing.
 */
export type HeededSampling = readonly SamplingName[] | 'ignore';

/** The header that names the parameters of a request that the model ignores. */
export const IGNORED_HEADER = 'x-blockstep-ignored';

/** The names of the numeric parameters. */
const NUMBER_NAMES = Object.keys(RANGES) as readonly NumberName[];

/** The names of all sampling parameters. */
export const SAMPLING_NAMES: readonly SamplingName[] = [
  ...NUMBER_NAMES,
  'logit_bias',
  'logprobs',
  'prompt_logprobs',
];

/**
 * The maximum number of tokens in a logit bias, and the largest bias, as in vLLM and OpenAI's API.
 */
const MOST_BIASES = 1024;
const LARGEST_BIAS = 100;
/** The maximum number of most likely tokens with log-probabilities, as in OpenAI's API. */
const MOST_LOGPROBS = 20;

/**
 * Reads the sampling parameters that mean the same in every route.
 * @param size of the vocabulary
 * @throws ApiError, also for a parameter that the model does not support
 */
export function readSampling(fields: Fields, heeded: HeededSampling, size: number): SamplingParams {
  const sampling: { [name in NumberName]?: number } = {};
  for (const name of NUMBER_NAMES) {
    const range = RANGES[name];
    const value = range.isInteger
      ? fields.integer(name, range.min, range.max)
      : fields.number(name, range.min, range.max);
    if (value === undefined) continue;
    if (!isHeeded(name, heeded) && !range.neutral.includes(value))
      throw unsupported(name, notHeeded(value, range));
    sampling[name] = value;
  }
  const logitBias = readLogitBias(fields, heeded, size);
  return logitBias === null ? sampling : { ...sampling, logit_bias: logitBias };
}

/**
 * The parameters of this request that the model ignores but that would have an effect with another
 * model.
 */
export function ignoredSampling(sampling: SamplingParams, heeded: HeededSampling): readonly string[] {
  if (heeded !== 'ignore') return [];
  return Object.entries(sampling)
    .filter(([name, value]) => !(RANGES[name as NumberName]?.neutral.includes(value as number) ?? false))
    .map(([name]) => name);
}

/**
 * Reads the `logprobs` of a completion: the number of most likely tokens to report.
 * @returns the number; undefined if no log-probabilities are wanted
 * @throws ApiError, also if the model reports none
 */
export function readLogprobs(fields: Fields, heeded: HeededSampling): number | undefined {
  // In chats this field is a boolean, and false requests nothing.
  if (fields.get('logprobs') === false) return undefined;
  return heededLogprobs(fields.integer('logprobs', 0, MOST_LOGPROBS), heeded);
}

/**
 * Whether the log-probabilities of the prompt are wanted, which requires an echo. @throws ApiError
 * if the model does not report them
 */
export function readsPrompts(
  isEchoed: boolean,
  logprobs: number | undefined,
  heeded: HeededSampling,
): boolean {
  if (!isEchoed || logprobs === undefined) return false;
  if (heeded === 'ignore' || !heeded.includes('prompt_logprobs'))
    throw unsupported(
      'echo',
      'this model does not say how likely the tokens of a prompt are; leave out echo, or logprobs',
    );
  return true;
}

/**
 * Reads the log-probability fields of a chat: `logprobs`, and the number `top_logprobs`. See
 * `readLogprobs`.
 */
export function readChatLogprobs(fields: Fields, heeded: HeededSampling): number | undefined {
  const wanted = fields.boolean('logprobs') ?? false;
  const top = fields.integer('top_logprobs', 0, MOST_LOGPROBS);
  if (top !== undefined && top > 0 && !wanted)
    throw badField('top_logprobs', `${top}`, 'absent where logprobs is not true');
  return heededLogprobs(wanted ? (top ?? 0) : undefined, heeded);
}

function heededLogprobs(count: number | undefined, heeded: HeededSampling): number | undefined {
  // A model that ignores parameters has no probabilities to report.
  if (count !== undefined && (heeded === 'ignore' || !heeded.includes('logprobs')))
    throw unsupported('logprobs', 'this model does not say how likely its tokens are');
  return count;
}

function readLogitBias(
  fields: Fields,
  heeded: HeededSampling,
  size: number,
): { readonly [token: string]: number } | null {
  const value = fields.get('logit_bias');
  if (value === undefined) return null;
  if (!isObject(value)) throw badField('logit_bias', show(value), 'an object of numbers by token ids');
  const entries = Object.entries(value);
  if (entries.length === 0) return null;
  if (heeded !== 'ignore' && !heeded.includes('logit_bias'))
    throw unsupported('logit_bias', 'this model takes no notice of it; leave it out');
  if (entries.length > MOST_BIASES)
    throw badField('logit_bias', `${entries.length} tokens`, `of at most ${MOST_BIASES} tokens`);
  for (const [token, bias] of entries) {
    if (!/^\d+$/.test(token) || Number(token) >= size)
      throw badField('logit_bias', `the key ${show(token)}`, `by token ids from 0 to ${size - 1}`);
    if (typeof bias !== 'number' || Math.abs(bias) > LARGEST_BIAS)
      throw badField(`logit_bias.${token}`, show(bias), `a number from -${LARGEST_BIAS} to ${LARGEST_BIAS}`);
  }
  return value as { readonly [token: string]: number };
}

/**
 * Whether a parameter has its documented effect on a model. A model without temperature always
 * samples greedily.
 */
function isHeeded(name: NumberName, heeded: HeededSampling): boolean {
  if (heeded === 'ignore' || heeded.includes(name)) return true;
  const range = RANGES[name];
  return range.onlyRandom === true && !heeded.includes('temperature');
}

function notHeeded(value: number, { neutral }: Range): string {
  const only = neutral.length === 0 ? 'leave it out' : `leave it out, or give ${neutral.join(' or ')}`;
  return `this model takes no notice of it, so ${show(value)} would change nothing; ${only}`;
}
