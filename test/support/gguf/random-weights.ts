import { Random } from '../../../src/base/random.js';

/** Makes weights up. Equal seeds give equal weights, tensor after tensor. */
export class RandomWeights {
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  /** Fills a tensor with normally distributed weights. */
  normal(deviation: number): (weights: Float32Array) => void {
    return (weights) => {
      for (let i = 0; i < weights.length; i += 2) {
        const radius = deviation * Math.sqrt(-2 * Math.log(1 - this.#random.next()));
        const angle = 2 * Math.PI * this.#random.next();
        weights[i] = radius * Math.cos(angle);
        if (i + 1 < weights.length) weights[i + 1] = radius * Math.sin(angle);
      }
    };
  }

  /** Fills a tensor with evenly distributed weights. */
  between(least: number, most: number): (weights: Float32Array) => void {
    return (weights) => {
      for (let i = 0; i < weights.length; i++) weights[i] = least + (most - least) * this.#random.next();
    };
  }

  /** Fills a tensor with one number. */
  all(value: number): (weights: Float32Array) => void {
    return (weights) => weights.fill(value);
  }
}
