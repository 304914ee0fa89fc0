import { checkNumber, isObject } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';

/** What the physics alone do not say: by which factor a GPU falls short of its data sheet, and what a step costs beside. */
export interface Coefficients {
  /** Times the time to read the weights. */
  memory: number;
  /** Times the time to compute matrices. */
  compute: number;
  /** Times the time of the attention of prompts. */
  prefillAttention: number;
  /** Times the time to read the KV cache of decodes. */
  decodeAttention: number;
  /** Times the time to read what decodes of unequal lengths would read if all were as long as the longest, beyond what they read. */
  skew: number;
  /** Milliseconds a request in the step. */
  rowMs: number;
  /** Milliseconds a step. */
  stepMs: number;
  /** Times the time between GPUs. */
  comm: number;
}

/** What is known of a coefficient before anything was measured. */
export interface Prior {
  readonly value: number;
  /** A fit stays within these. */
  readonly min: number;
  readonly max: number;
  /** Standard deviation of the logarithm. */
  readonly spread: number;
}

/**
 * The prior: a GPU reaches 80 % of its bandwidth and half of its arithmetic. The factors of the roofline stay from 1 to 4:
 * a fit can find a GPU slower than its data sheet, and never faster.
 */
export const PRIORS: Readonly<Record<keyof Coefficients, Prior>> = {
  memory: { value: 1.25, min: 1, max: 4, spread: 0.2 },
  compute: { value: 2, min: 1, max: 4, spread: 0.4 },
  prefillAttention: { value: 2, min: 0.5, max: 16, spread: 0.7 },
  decodeAttention: { value: 1.25, min: 1, max: 8, spread: 0.4 },
  skew: { value: 0.05, min: 0.001, max: 1, spread: 1 },
  rowMs: { value: 0.004, min: 1e-5, max: 0.2, spread: 1.2 },
  stepMs: { value: 0.5, min: 0.01, max: 20, spread: 1.2 },
  comm: { value: 2, min: 1, max: 64, spread: 1 },
};

/** The names of the coefficients, in their order. */
export const COEFFICIENTS = Object.keys(PRIORS) as readonly (keyof Coefficients)[];

const KNOWN = knownNames<Coefficients>('the coefficients of a profile', PRIORS);

/** The coefficients of a roofline: those of the prior. */
export function priorCoefficients(): Coefficients {
  return Object.fromEntries(
    COEFFICIENTS.map((name) => [name, PRIORS[name].value]),
  ) as unknown as Coefficients;
}

/** A checked copy. @throws ERR_BLOCKSTEP_BAD_ARG unless all are finite, and none is negative */
export function takeCoefficients(name: string, value: unknown): Coefficients {
  if (!isObject(value)) throw badArgument(name, show(value), 'an object');
  checkNames(value, KNOWN);
  const taken: Record<string, number> = {};
  for (const each of COEFFICIENTS) taken[each] = checkNumber(`${name}.${each}`, value[each], 0);
  return taken as unknown as Coefficients;
}
