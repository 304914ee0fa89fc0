import { checkNumber } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { StepCost, StepFeatures } from './step-features.js';

/** The figures of a roofline model, from which the time of a step follows. */
export interface CostModel {
  /** Milliseconds of host work before each step: scheduling, input preparation, launches. */
  stepOverheadMs: number;
  /** Prompt tokens that the device computes per second. */
  prefillTokensPerSecond: number;
  /** Bytes of weights, read once by every step that decodes. */
  weightBytes: number;
  /** Bytes of KV cache of one token, read for every token that a decoding request attends to. */
  kvBytesPerToken: number;
  /** Bytes that the device reads from its memory per second. */
  memoryBytesPerSecond: number;
}

/** Probability that a draft token is accepted, where nobody has measured it. */
export const ACCEPTANCE_RATE = 0.7;

/**
 * A model of 8 billion parameters in 16 bits on one H100 SXM: an assumption, not a measurement.
 * Llama 3.1 8B has 16.06 GB of weights. Its KV per token is 2 x 32 layers x 8 KV heads x 128 x 2
 * bytes = 128 KiB. The GPU reaches 80 % of its 3.35 TB/s and half of its 989 TFLOPS (16 GFLOP per
 * token).
 */
export const DEFAULT_COST_MODEL: Readonly<CostModel> = {
  stepOverheadMs: 1,
  prefillTokensPerSecond: 30_000,
  weightBytes: 16.06e9,
  kvBytesPerToken: 131_072,
  memoryBytesPerSecond: 2.7e12,
};

const COST_MODEL_FIELDS = knownNames<CostModel>('model', DEFAULT_COST_MODEL);

/**
 * A checked copy of a cost model, which later changes of the caller's object do not reach.
 * @throws ERR_BLOCKSTEP_BAD_ARG unless all figures are finite, none is negative, and speeds are not
 * 0
 */
export function parseCostModel(model: CostModel): Readonly<CostModel> {
  if (typeof model !== 'object' || model === null) throw badArgument('model', show(model), 'an object');
  checkNames(model, COST_MODEL_FIELDS);
  const { stepOverheadMs, prefillTokensPerSecond, weightBytes, kvBytesPerToken, memoryBytesPerSecond } =
    model;
  return {
    stepOverheadMs: checkNumber('stepOverheadMs', stepOverheadMs, 0),
    prefillTokensPerSecond: checkSpeed('prefillTokensPerSecond', prefillTokensPerSecond),
    weightBytes: checkNumber('weightBytes', weightBytes, 0),
    kvBytesPerToken: checkNumber('kvBytesPerToken', kvBytesPerToken, 0),
    memoryBytesPerSecond: checkSpeed('memoryBytesPerSecond', memoryBytesPerSecond),
  };
}

function checkSpeed(name: string, value: unknown): number {
  if (typeof value === 'number' && value > 0 && value <= Number.MAX_VALUE) return value;
  throw badArgument(name, show(value), 'a finite number above 0');
}

/** The part of `StepFeatures` that these figures use: the device work of a step. */
export type StepLoad = Pick<StepFeatures, 'prefillTokens' | 'decodes' | 'decodeContextTokens'>;

/**
 * Milliseconds that the device takes for a step: prefill, bound by arithmetic, plus decode, bound
 * by memory. The model leaves out the attention of prompts over their own past, the drafting model,
 * and the overlap of prefill with decode.
 */
export function deviceMs(model: CostModel, load: StepLoad): number {
  const prefillSeconds = load.prefillTokens / model.prefillTokensPerSecond;
  const decodeBytes =
    (load.decodes > 0 ? model.weightBytes : 0) + load.decodeContextTokens * model.kvBytesPerToken;
  return 1000 * (prefillSeconds + decodeBytes / model.memoryBytesPerSecond);
}

/** Makes a `StepCost` of a cost model. @throws ERR_BLOCKSTEP_BAD_ARG as `parseCostModel` */
export function costOf(model: CostModel): StepCost {
  const parsed = parseCostModel(model);
  return { hostMs: () => parsed.stepOverheadMs, stepMs: (features) => deviceMs(parsed, features) };
}
