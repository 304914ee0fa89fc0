import { checkNumber, isObject } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';

/**
 * Corrections of the physics: the factors by which a GPU falls short of its data sheet, and the
 * constant costs of a step.
 */
export interface Coefficients {
  /** Factor of the time to read the weights. */
  memory: number;
  /** Factor of the time to compute matrices. */
  compute: number;
  /** Factor of the time of the attention of prompts. */
  prefillAttention: number;
  /** Factor of the time to read the KV cache of decodes. */
  decodeAttention: number;
  /**
   * Factor of the time to read the padding of decodes: the KV beyond their own if all were as long
   * as the longest.
   */
  skew: number;
  /** Milliseconds per request in the step. */
  rowMs: number;
  /** Milliseconds per step. */
  stepMs: number;
  /** Factor of the time between GPUs. */
  comm: number;
}

/** The knowledge of a coefficient before any measurement. */
export interface Prior {
  readonly value: number;
  /** Bounds of a fit. */
  readonly min: number;
  readonly max: number;
  /** Standard deviation of the logarithm. */
  readonly spread: number;
}

/**
 * The prior: a GPU reaches 80 % of its bandwidth and half of its arithmetic. The factors of the
 * roofline stay from 1 to 4. A fit can therefore find a GPU slower than its data sheet, and never
 * faster.
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

/** The coefficients of a roofline: the values of the prior. */
export function priorCoefficients(): Coefficients {
  return Object.fromEntries(
    COEFFICIENTS.map((name) => [name, PRIORS[name].value]),
  ) as unknown as Coefficients;
}

/**
 * A checked copy.
 * @throws ERR_BLOCKSTEP_BAD_ARG unless all are finite, and none is negative. Also if the cost would
 * fall while a decode's context grows, because less padding saved more than the context costs
 */
export function parseCoefficients(name: string, value: unknown): Coefficients {
  if (!isObject(value)) throw badArgument(name, show(value), 'an object');
  checkNames(value, KNOWN);
  const parsed: Record<string, number> = {};
  for (const each of COEFFICIENTS) parsed[each] = checkNumber(`${name}.${each}`, value[each], 0);
  checkNumber(`${name}.skew`, parsed['skew'], 0, parsed['decodeAttention']);
  return parsed as unknown as Coefficients;
}
