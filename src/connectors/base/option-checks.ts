// Checks of options that several connectors have.
import { badArg, isRecord } from '../../base/checks.js';
import { checkNames, type KnownNames } from '../../base/known-names.js';
import { type LaneFactory, laneBetween } from './kv-lanes.js';

/** Checks that options are an object and have only known names. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkOptions(options: unknown, known: KnownNames): void {
  if (!isRecord(options)) throw badArg(known.what, options, 'an object');
  checkNames(options, known);
}

/** Returns the lane factory; undefined means `laneBetween`. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkLaneFactory(makeLane: unknown): LaneFactory {
  if (makeLane === undefined) return laneBetween;
  if (typeof makeLane !== 'function') throw badArg('makeLane', makeLane, 'a function that makes a lane');
  return makeLane as LaneFactory;
}

/** Returns the clock; undefined means `performance.now`. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkClock(now: unknown): () => number {
  if (now === undefined) return () => performance.now();
  if (typeof now !== 'function') throw badArg('now', now, 'a function that returns milliseconds');
  return now as () => number;
}
