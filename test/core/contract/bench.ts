import type { BenchCore, SMALL } from '../../support/core-bench.js';

/** Makes a core of the build under test, small unless the options say otherwise. */
export type Bench = (config?: Partial<typeof SMALL>) => BenchCore;

/** The results of `run` and `admit` in place of a count. */
export const NOT_ENOUGH_BLOCKS = -1;
export const NO_FREE_ROW = -2;
