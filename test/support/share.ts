/**
 * The size of a proof that a suite has twice: a fixed share of it in `npm test`, all of it with `npm run test:long -- suites`.
 * @param small what `npm test` runs
 * @param whole what the proof is in full
 */
export function share<T>(small: T, whole: T): T {
  return process.env['BLOCKSTEP_TEST_WHOLE'] === '1' ? whole : small;
}
