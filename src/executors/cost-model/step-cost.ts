import { isRecord } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import { type CostModel, costOf } from './cost-model.js';
import { type StepCost, StepFeatures } from './step-features.js';

/**
 * Checks a caller's model, and makes it a `StepCost`. The figures of a roofline model are checked and copied.
 * @throws ERR_BLOCKSTEP_BAD_ARG for any other value
 */
export function parseStepCost(model: CostModel | StepCost): StepCost {
  if (!isRecord(model) || !('stepMs' in model)) return costOf(model as CostModel);
  const { stepMs, hostMs } = model as unknown as StepCost;
  if (typeof stepMs !== 'function') throw badArgument('model.stepMs', show(stepMs), 'a function');
  if (typeof hostMs !== 'function') throw badArgument('model.hostMs', show(hostMs), 'a function');
  return model as StepCost;
}

/**
 * Checks a time that a `StepCost` gave.
 * @throws ERR_BLOCKSTEP_BAD_ARG unless it is a finite number of at least 0
 */
export function checkMs(name: string, ms: number): number {
  if (ms >= 0 && ms <= Number.MAX_VALUE) return ms;
  throw badArgument(`model.${name}(features)`, show(ms), 'a finite number of at least 0');
}

/**
 * Milliseconds that a request of this size takes alone: one prefill step, then one decode step per
 * token.
 */
export function aloneMs(cost: StepCost, inputTokens: number, outputTokens: number): number {
  const features = new StepFeatures();
  features.addPrefill(inputTokens, 0);
  features.end();
  const prefillMs = cost.hostMs(features) + cost.stepMs(features);
  features.begin();
  // The context grows by one token per step, from input + 1 to input + output - 1. This is its
  // mean.
  features.addDecode(1, inputTokens + outputTokens / 2);
  features.end();
  return prefillMs + (outputTokens - 1) * (cost.hostMs(features) + cost.stepMs(features));
}
