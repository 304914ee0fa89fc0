import { isObject } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import type { StepCost, StepFeatures } from '../../executors/cost-model/step-features.js';

/** The features whose range is recorded. */
export const RANGED = [
  'tokens',
  'rows',
  'prefillTokens',
  'prefillPairs',
  'decodeContextTokens',
  'largestDecodeContext',
  'drafts',
] as const;

/** The smallest and the largest value of each feature in the measured steps. */
export type SeenRange = Readonly<Record<(typeof RANGED)[number], readonly [least: number, most: number]>>;

/** Collects the range of the features of steps. */
export class RangeCollector {
  readonly #least = new Float64Array(RANGED.length).fill(Number.POSITIVE_INFINITY);
  readonly #most = new Float64Array(RANGED.length).fill(Number.NEGATIVE_INFINITY);

  add(features: Readonly<StepFeatures>): void {
    for (let i = 0; i < RANGED.length; i++) {
      const value = features[RANGED[i]];
      if (value < this.#least[i]) this.#least[i] = value;
      if (value > this.#most[i]) this.#most[i] = value;
    }
  }

  /** Null if no step was added. */
  range(): SeenRange | null {
    if (this.#most[0] < this.#least[0]) return null;
    return Object.fromEntries(
      RANGED.map((name, i) => [name, [this.#least[i], this.#most[i]]]),
    ) as unknown as SeenRange;
  }
}

/** Whether a step lies outside the seen range. Without a range every step does. */
export function isOutside(seen: SeenRange | null, features: Readonly<StepFeatures>): boolean {
  if (seen === null) return true;
  for (const name of RANGED) {
    // A step with less of a feature than all seen steps is still known: it only leaves work out.
    if (features[name] > seen[name][1]) return true;
  }
  return features.tokens < seen.tokens[0] || features.rows < seen.rows[0];
}

/** A step cost that counts all steps, and the steps outside the seen range. */
export class WatchedCost implements StepCost {
  steps = 0;
  stepsOutside = 0;
  readonly #cost: StepCost;
  readonly #seen: SeenRange | null;

  constructor(cost: StepCost, seen: SeenRange | null) {
    this.#cost = cost;
    this.#seen = seen;
  }

  /** The fraction of the steps outside; 0 without steps. */
  get shareOutside(): number {
    return this.steps === 0 ? 0 : this.stepsOutside / this.steps;
  }

  stepMs(features: Readonly<StepFeatures>): number {
    this.steps++;
    if (isOutside(this.#seen, features)) this.stepsOutside++;
    return this.#cost.stepMs(features);
  }

  hostMs(features: Readonly<StepFeatures>): number {
    return this.#cost.hostMs(features);
  }
}

/** A checked copy. @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseSeenRange(value: unknown): SeenRange | null {
  if (value === null) return null;
  if (!isObject(value)) throw badArgument('seen', show(value), 'an object or null');
  const pairs = RANGED.map((name) => {
    // Profiles without drafts need not say so.
    const pair = value[name] ?? (name === 'drafts' ? [0, 0] : undefined);
    const isPair = Array.isArray(pair) && pair.length === 2 && pair.every((each) => Number.isFinite(each));
    if (isPair && pair[0] >= 0 && pair[0] <= pair[1]) return [name, [pair[0], pair[1]]] as const;
    throw badArgument(`seen.${name}`, show(pair), '[least, most], two numbers of at least 0');
  });
  return Object.fromEntries(pairs) as unknown as SeenRange;
}
