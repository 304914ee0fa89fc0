import type { Tree } from './tree.js';

/** How long suites took in `npm test` on a quiet machine, as `npm run test:full -- --seconds` wrote it down. */
export const SECONDS_FILE = 'test/house/seconds.json';

/** Most seconds of a suite in `npm test`. */
const MOST_SECONDS = 4;

/** Suites that take longer, and why they do. */
const SLOW: Readonly<Record<string, string>> = {};

/** No suite takes long in `npm test`, but those that are named with a reason. */
export function suitesAreQuick(tree: Tree, slow = SLOW): string[] {
  const seconds = JSON.parse(tree.text(SECONDS_FILE)) as Record<string, number>;
  const long = Object.entries(seconds).filter(([, each]) => each > MOST_SECONDS);
  const faults = long
    .filter(([path]) => !Object.hasOwn(slow, path))
    .map(
      ([path, each]) =>
        `${path} takes ${each} s in npm test, at most ${MOST_SECONDS} are allowed: give it a share (test/support/share.ts), or a reason in SLOW (test/house/quick.ts)`,
    );
  const idle = Object.keys(slow).filter((path) => !long.some(([each]) => each === path));
  return [...faults, ...idle.map((path) => `${path} is quick: take it out of SLOW (test/house/quick.ts)`)];
}
