import type { StepCost, StepFeatures } from '../../executors/cost-model/step-features.js';
import type { Coefficients } from './coefficients.js';
import type { Physics } from './physics.js';

/** Work of the host before a step, in milliseconds. */
export interface HostTime {
  stepMs: number;
  rowMs: number;
}

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
  // Most decode steps have the sizes of the previous step.
  #lastTokens = -1;
  #lastSampled = -1;
  #linear = 0;
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
    const { paddedTokens, rows, drafts, decodes, decodeContextTokens, prefillPairs } = features;
    const { largestDecodeContext } = features;
    // The model samples at each draft too.
    const sampled = rows + drafts;
    if (paddedTokens !== this.#lastTokens || sampled !== this.#lastSampled)
      this.#findLinear(paddedTokens, sampled);
    const unequal = decodes * largestDecodeContext - decodeContextTokens;
    const kv = c.decodeAttention * decodeContextTokens + c.skew * unequal;
    const attention =
      (c.prefillAttention * prefillPairs * p.flopsPerPair) / p.flopsPerSecond +
      (kv * p.kvBytesPerToken) / p.memoryBytesPerSecond;
    const comm = (c.comm * paddedTokens * p.commBytesPerToken) / p.linkBytesPerSecond;
    return 1000 * (this.#linear + attention + comm) + rows * c.rowMs + c.stepMs;
  }

  /**
   * Seconds for the matrices. Computation hides the reading of weights. If both take equally long,
   * neither hides the other completely.
   */
  #findLinear(tokens: number, sampled: number): void {
    const p = this.#physics;
    const read = (this.#coefficients.memory * this.#readBytes(tokens)) / p.memoryBytesPerSecond;
    const flops = tokens * p.flopsPerToken + sampled * p.flopsPerRow;
    const compute = (this.#coefficients.compute * flops) / p.flopsPerSecond;
    this.#linear = Math.sqrt(Math.sqrt(read ** 4 + compute ** 4));
    this.#lastTokens = tokens;
    this.#lastSampled = sampled;
  }

  /**
   * Bytes of weights that a step reads. Only the experts that some token uses are read, so more
   * tokens read more experts.
   */
  #readBytes(tokens: number): number {
    const { weightBytes, expertBytes, experts, expertsPerToken } = this.#physics;
    if (experts === 0) return weightBytes;
    return weightBytes + expertBytes * (1 - (1 - expertsPerToken / experts) ** tokens);
  }
}
