/** `npm test`, `npm run test:full`, and `npm run test:long -- suites`. */
const SIZES = ['quick', 'full', 'whole'] as const;

/** How much the suites run, by the environment variable `BLOCKSTEP_TEST_SIZE`. */
const SIZE = sizeOf(process.env['BLOCKSTEP_TEST_SIZE'] ?? 'quick');

function sizeOf(name: string): (typeof SIZES)[number] {
  const size = SIZES.find((each) => each === name);
  if (size === undefined) throw new Error(`BLOCKSTEP_TEST_SIZE is ${name}; expected ${SIZES.join(', ')}`);
  return size;
}

/** Whether this run is `npm test`, which skips tests that are slow; `npm run test:full` runs them. */
export const isQuick = SIZE === 'quick';

/** Whether the command names suites, by paths that begin with `test/`. */
export const areNamed = process.argv.slice(2).some((argument) => /^test\/.*(?<!config\.ts)$/.test(argument));

/**
 * The size of a proof in each of the three sizes of a run.
 * @param quick the size for `npm test`
 * @param full the size for `npm run test:full`
 * @param whole the size for `npm run test:long -- suites`; the same as `full` unless it is given
 */
export function share<T>(quick: T, full: T, whole: T = full): T {
  return { quick, full, whole }[SIZE];
}

/**
 * The cases of a proof: all of them with `npm run test:long -- suites`, some of them else.
 * @param every `npm run test:full` runs one of so many cases
 * @param first the place of the first one, so that parts of a suite can have different ones
 * @param quick `npm test` runs one of so many of those
 */
export function thinned<T>(cases: readonly T[], every: number, first = 0, quick = 3): T[] {
  if (SIZE === 'whole') return [...cases];
  const full = cases.filter((_, i) => i % every === first % every);
  return SIZE === 'full' ? full : full.filter((_, i) => i % quick === first % Math.min(quick, full.length));
}

/** Before all suites: says what a run leaves out. */
export default function saySize(): void {
  if (isQuick)
    console.log('a share of each long proof; npm run test:full has all, and the slow tests skipped here');
}
