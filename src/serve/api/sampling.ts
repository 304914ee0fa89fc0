// Sampling parameters, and those that the model supports.
import { isObject } from '../../base/checks.js';
import { show } from '../../base/errors.js';
import type { SamplingParams } from '../../engine/executor/sampling-params.js';
import { badField, unsupported } from './api-error.js';
import type { Fields } from './fields.js';

/** A parameter that says how the executor picks tokens: its range, and the value that changes nothing. */
interface Range {
  readonly min: number;
  readonly max: number;
  readonly neutral: readonly number[];
  readonly isInteger?: true;
  /** It changes nothing where the most likely token is always taken. */
  readonly onlyRandom?: true;
}

const LARGE = 2 ** 53 - 1;

/** The name of a parameter of sampling. */
export type SamplingName = keyof SamplingParams;

/** Those of them that are numbers, and mean the same in every route. */
type NumberName = Exclude<SamplingName, 'logit_bias' | 'logprobs' | 'prompt_logprobs'>;

/** The parameters of sampling, by vLLM's and OpenAI's names and ranges. */
const RANGES: Readonly<Record<NumberName, Range>> = {
  // A model that always takes the most likely token does what a temperature of 0 asks for.
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
 * Which parameters of sampling a model heeds. Others are refused, unless their value changes nothing. `ignore`: all are taken, and none
 * is heeded, for a model whose texts mean nothing.
 */
export type HeededSampling = readonly SamplingName[] | 'ignore';

/** The header that names the parameters of a request that the model ignores. */
export const IGNORED_HEADER = 'x-blockstep-ignored';

/** The names of those that are numbers. */
const NUMBER_NAMES = Object.keys(RANGES) as readonly NumberName[];

/** The names of all parameters of sampling. */
export const SAMPLING_NAMES: readonly SamplingName[] = [
  ...NUMBER_NAMES,
  'logit_bias',
  'logprobs',
  'prompt_logprobs',
];

/** Most tokens of a logit bias, and the largest one, as in vLLM and in OpenAI's API. */
const MOST_BIASES = 1024;
const LARGEST_BIAS = 100;
/** Most likely tokens of which log-probabilities can be had, as in OpenAI's API. */
const MOST_LOGPROBS = 20;

/**
 * Reads the parameters of sampling that mean the same in every route.
 * @param size of the vocabulary
 * @throws ApiError, also for one that the model does not heed
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

/** The parameters that would change the answer of another model, of one that ignores them. */
export function ignoredSampling(sampling: SamplingParams, heeded: HeededSampling): readonly string[] {
  if (heeded !== 'ignore') return [];
  return Object.entries(sampling)
    .filter(([name, value]) => !(RANGES[name as NumberName]?.neutral.includes(value as number) ?? false))
    .map(([name]) => name);
}

/**
 * Reads what a completion says of log-probabilities: `logprobs`, of so many most likely tokens.
 * @returns how many; undefined: none are wanted
 * @throws ApiError, also if the model gives none
 */
export function readLogprobs(fields: Fields, heeded: HeededSampling): number | undefined {
  // Chats have a truth value here, and false asks for nothing.
  if (fields.get('logprobs') === false) return undefined;
  return heededLogprobs(fields.integer('logprobs', 0, MOST_LOGPROBS), heeded);
}

/** Whether the tokens of a prompt are wanted to be said how likely they are: those of an echo. @throws ApiError if the model does not say it */
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

/** Reads what a chat says of them: `logprobs`, and `top_logprobs` of so many most likely tokens. See `readLogprobs`. */
export function readChatLogprobs(fields: Fields, heeded: HeededSampling): number | undefined {
  const wanted = fields.boolean('logprobs') ?? false;
  const top = fields.integer('top_logprobs', 0, MOST_LOGPROBS);
  if (top !== undefined && top > 0 && !wanted)
    throw badField('top_logprobs', `${top}`, 'absent where logprobs is not true');
  return heededLogprobs(wanted ? (top ?? 0) : undefined, heeded);
}

function heededLogprobs(count: number | undefined, heeded: HeededSampling): number | undefined {
  // A model that ignores parameters has no probabilities that it could give.
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

/** Whether a model does with a parameter what it says. A model without temperature always takes the most likely token. */
function isHeeded(name: NumberName, heeded: HeededSampling): boolean {
  if (heeded === 'ignore' || heeded.includes(name)) return true;
  const range = RANGES[name];
  return range.onlyRandom === true && !heeded.includes('temperature');
}

function notHeeded(value: number, { neutral }: Range): string {
  const only = neutral.length === 0 ? 'leave it out' : `leave it out, or give ${neutral.join(' or ')}`;
  return `this model takes no notice of it, so ${show(value)} would change nothing; ${only}`;
}
