import type { StepCost, StepFeatures } from '../../executors/cost-model/step-features.js';
import type { Coefficients } from './coefficients.js';
import type { Physics } from './physics.js';

/** Work of the host before a step, in milliseconds. */
export interface HostTime {
  stepMs: number;
  rowMs: number;
}

/** The same exponent for both: matrices hide the reading of their weights, and neither hides all of it where both take equally long. */
const SMOOTH = 4;

/**
 * The cost of a step by physics and coefficients.
 *
 *     linear = (read^4 + compute^4)^(1/4)      read weights, and compute matrices, at the same time
 *     step   = linear + attention of prompts + KV read by decodes + their skew + rows + between GPUs + constant
 *
 * Each term grows with its features, so no more work ever costs less.
 */
export class PhysicsCost implements StepCost {
  readonly #physics: Physics;
  readonly #host: HostTime;
  readonly #coefficients: Coefficients;

  constructor(physics: Physics, coefficients: Coefficients, host: HostTime) {
    this.#physics = physics;
    this.#coefficients = coefficients;
    this.#host = host;
  }

  hostMs({ rows }: Readonly<StepFeatures>): number {
    return this.#host.stepMs + rows * this.#host.rowMs;
  }

  stepMs(features: Readonly<StepFeatures>): number {
    const p = this.#physics;
    const c = this.#coefficients;
    const { paddedTokens, rows, decodes, decodeContextTokens, prefillPairs, largestDecodeContext } = features;
    const read = (c.memory * this.#readBytes(paddedTokens)) / p.memoryBytesPerSecond;
    const flops = paddedTokens * p.flopsPerToken + rows * p.flopsPerRow;
    const compute = (c.compute * flops) / p.flopsPerSecond;
    const linear = (read ** SMOOTH + compute ** SMOOTH) ** (1 / SMOOTH);
    const unequal = decodes * largestDecodeContext - decodeContextTokens;
    const kv = c.decodeAttention * decodeContextTokens + c.skew * unequal;
    const attention =
      (c.prefillAttention * prefillPairs * p.flopsPerPair) / p.flopsPerSecond +
      (kv * p.kvBytesPerToken) / p.memoryBytesPerSecond;
    const comm = (c.comm * paddedTokens * p.commBytesPerToken) / p.linkBytesPerSecond;
    return 1000 * (linear + attention + comm) + rows * c.rowMs + c.stepMs;
  }

  /** Bytes of weights that a step reads. Of experts it reads those that a token uses: the more tokens, the more of them. */
  #readBytes(tokens: number): number {
    const { weightBytes, expertBytes, experts, expertsPerToken } = this.#physics;
    if (experts === 0) return weightBytes;
    return weightBytes + expertBytes * (1 - (1 - expertsPerToken / experts) ** tokens);
  }
}
