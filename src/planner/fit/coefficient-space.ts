import { COEFFICIENTS, type Coefficients, PRIORS, priorCoefficients } from '../model/coefficients.js';
import type { Physics } from '../model/physics.js';
import type { LogPrior, Solution } from './least-squares.js';

/**
 * A coefficient counts as determined if the data leave at most this fraction of its prior
 * uncertainty.
 */
const DETERMINED = 0.5;

/** The coefficients of a fit, as logarithms. A single GPU has no time between GPUs. */
export class CoefficientSpace {
  readonly names: readonly (keyof Coefficients)[];
  readonly priors: readonly LogPrior[];

  constructor(physics: Physics) {
    this.names = COEFFICIENTS.filter((name) => name !== 'comm' || physics.commBytesPerToken > 0);
    this.priors = this.names.map((name) => {
      const { value, min, max, spread } = PRIORS[name];
      return { mean: Math.log(value), spread, min: Math.log(min), max: Math.log(max) };
    });
  }

  /**
   * Starting points of fits: the prior, and `others` points around it, the same for all problems.
   */
  starts(others: number): Float64Array[] {
    const around = Array.from({ length: others }, (_, k) => (k % 2 === 0 ? 1 : -1) * (1 + Math.floor(k / 2)));
    return [0, ...around].map((times) =>
      Float64Array.from(
        this.priors,
        ({ mean, spread }, i) => mean + (i % 2 === 0 ? times : -times) * 0.7 * spread,
      ),
    );
  }

  coefficients(logs: Float64Array): Coefficients {
    const made = priorCoefficients();
    for (const [i, name] of this.names.entries()) made[name] = Math.exp(logs[i]);
    return made;
  }

  /** The coefficients that the data did not determine. */
  undetermined({ deviations }: Solution): (keyof Coefficients)[] {
    return this.names.filter((_, i) => deviations[i] > DETERMINED * this.priors[i].spread);
  }
}
