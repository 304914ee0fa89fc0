/** Whether a suite runs all of its proofs: `npm run test:long -- suites`. */
const IS_WHOLE = process.env['BLOCKSTEP_TEST_WHOLE'] === '1';

/**
 * The size of a proof that a suite has twice: a fixed share of it in `npm test`, all of it with `npm run test:long -- suites`.
 * @param small what `npm test` runs
 * @param whole what the proof is in full
 */
export function share<T>(small: T, whole: T): T {
  return IS_WHOLE ? whole : small;
}

/**
 * The cases of a proof that a suite has in full with `npm run test:long -- suites`, and some of which `npm test` runs.
 * @param every of so many cases, one is run
 * @param first the place of the first one, so that parts of a suite can have different ones
 */
export function thinned<T>(cases: readonly T[], every: number, first = 0): T[] {
  return cases.filter((_, i) => IS_WHOLE || i % every === first % every);
}
