import { show } from '../../base/errors.js';
import { unsupported } from './api-error.js';
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
export type SamplingName =
  | 'temperature'
  | 'top_p'
  | 'top_k'
  | 'min_p'
  | 'seed'
  | 'frequency_penalty'
  | 'presence_penalty'
  | 'repetition_penalty';

/** The parameters of sampling, by vLLM's and OpenAI's names and ranges. */
const RANGES: Readonly<Record<SamplingName, Range>> = {
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

/** How the executor is to pick tokens; what the client did not say is absent. Part of `ExecutorRequest.params`. */
export type Sampling = { readonly [name in SamplingName]?: number };

/**
 * Which parameters of sampling a model heeds. Others are refused, unless their value changes nothing. `ignore`: all are taken, and none
 * is heeded, for a model whose texts mean nothing.
 */
export type HeededSampling = readonly SamplingName[] | 'ignore';

/** The names of all parameters of sampling. */
export const SAMPLING_NAMES = Object.keys(RANGES) as readonly SamplingName[];

/** Reads the parameters of sampling. @throws ApiError, also for one that the model does not heed */
export function readSampling(fields: Fields, heeded: HeededSampling): Sampling {
  const sampling: { [name in SamplingName]?: number } = {};
  for (const name of SAMPLING_NAMES) {
    const range = RANGES[name];
    const value = range.isInteger
      ? fields.integer(name, range.min, range.max)
      : fields.number(name, range.min, range.max);
    if (value === undefined) continue;
    if (!isHeeded(name, heeded) && !range.neutral.includes(value))
      throw unsupported(name, notHeeded(value, range));
    sampling[name] = value;
  }
  return sampling;
}

/** Whether a model does with a parameter what it says. A model without temperature always takes the most likely token. */
function isHeeded(name: SamplingName, heeded: HeededSampling): boolean {
  if (heeded === 'ignore' || heeded.includes(name)) return true;
  const range = RANGES[name];
  return range.onlyRandom === true && !heeded.includes('temperature');
}

function notHeeded(value: number, { neutral }: Range): string {
  const only = neutral.length === 0 ? 'leave it out' : `leave it out, or give ${neutral.join(' or ')}`;
  return `this model takes no notice of it, so ${show(value)} would change nothing; ${only}`;
}
