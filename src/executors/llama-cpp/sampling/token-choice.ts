import { badArg, checkNumber, isObject } from '../../../base/checks.js';
import { checkInteger } from '../../../base/errors.js';
import { checkNames, knownNames } from '../../../base/known-names.js';
import type { PromptLogprobs, SamplingParams } from '../../../engine/executor/sampling-params.js';
import type { NativeSamplerOptions } from '../native/binding.js';

const NAMES = knownNames<SamplingParams>('params', {
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
  prompt_logprobs: true,
});

/** The sampling of a request: `SamplingParams`, checked. */
export type TokenChoice = Omit<NativeSamplerOptions, 'prompt' | 'grammar'>;

const NO_TOKENS = new Int32Array(0);
const NO_BIASES = new Float32Array(0);

/**
 * Reads the parameters of a request.
 * @param params `SamplingParams`, or nothing
 * @param vocabSize tokens of the vocabulary
 * @returns null for greedy sampling without other wishes
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function readChoice(params: unknown, vocabSize: number): TokenChoice | null {
  if (params === undefined || params === null) return null;
  if (!isObject(params)) throw badArg('params', params, 'an object');
  checkNames(params, NAMES);
  const { temperature, top_p, top_k, min_p, seed, frequency_penalty, presence_penalty } =
    params as SamplingParams;
  const { repetition_penalty, logit_bias, logprobs } = params as SamplingParams;
  const number = (name: string, value: unknown, neutral: number, min: number, max: number): number =>
    value === undefined ? neutral : checkNumber(`params.${name}`, value, min, max);
  const repetition = number('repetition_penalty', repetition_penalty, 1, 0, 2);
  if (repetition === 0) throw badArg('params.repetition_penalty', repetition, 'above 0');
  promptLogprobsOf(params);
  const biases = readBiases(logit_bias, vocabSize);
  const choice: TokenChoice = {
    temperature: number('temperature', temperature, 1, 0, 2),
    topP: number('top_p', top_p, 1, 0, 1),
    topK: Math.max(0, integer('top_k', top_k, 0, -1, 2 ** 31 - 1)),
    minP: number('min_p', min_p, 0, 0, 1),
    seed: integer('seed', seed, randomSeed(), -(2 ** 53 - 1), 2 ** 53 - 1),
    frequencyPenalty: number('frequency_penalty', frequency_penalty, 0, -2, 2),
    presencePenalty: number('presence_penalty', presence_penalty, 0, -2, 2),
    repetitionPenalty: repetition,
    numLogprobs: integer('logprobs', logprobs, -1, 0, 20),
    ...biases,
  };
  return isPlain(choice) ? null : choice;
}

/** The receiver of the log-probabilities of a prompt; null: none. @throws ERR_BLOCKSTEP_BAD_ARG */
export function promptLogprobsOf(params: unknown): PromptLogprobs | null {
  const told = (params as SamplingParams | null | undefined)?.prompt_logprobs;
  if (told === undefined) return null;
  if (!isObject(told) || typeof told['add'] !== 'function')
    throw badArg('params.prompt_logprobs', told, 'an object with count and add');
  checkInteger('params.prompt_logprobs.count', told['count'], 0, 20);
  return told as unknown as PromptLogprobs;
}

/** Greedy sampling. */
export const LIKELIEST: TokenChoice = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  seed: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  numLogprobs: -1,
  biasTokens: NO_TOKENS,
  biases: NO_BIASES,
};

function integer(name: string, value: unknown, neutral: number, min: number, max: number): number {
  return value === undefined ? neutral : checkInteger(`params.${name}`, value, min, max);
}

function randomSeed(): number {
  return Math.floor(Math.random() * 2 ** 53);
}

function isPlain({
  temperature,
  frequencyPenalty,
  presencePenalty,
  repetitionPenalty,
  numLogprobs,
  biasTokens,
}: TokenChoice): boolean {
  const hasPenalty = frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1;
  return temperature === 0 && !hasPenalty && numLogprobs < 0 && biasTokens.length === 0;
}

function readBiases(value: unknown, vocabSize: number): Pick<TokenChoice, 'biasTokens' | 'biases'> {
  if (value === undefined) return { biasTokens: NO_TOKENS, biases: NO_BIASES };
  if (!isObject(value)) throw badArg('params.logit_bias', value, 'an object of biases by token');
  const entries = Object.entries(value);
  const biasTokens = entries.map(([token]) =>
    /^\d+$/.test(token) ? checkInteger('params.logit_bias', Number(token), 0, vocabSize - 1) : refuse(token),
  );
  const biases = entries.map(([token, bias]) => checkNumber(`params.logit_bias[${token}]`, bias, -100, 100));
  return { biasTokens: Int32Array.from(biasTokens), biases: Float32Array.from(biases) };
}

function refuse(token: string): never {
  throw badArg('params.logit_bias', token, 'an object of biases by token, an id');
}
