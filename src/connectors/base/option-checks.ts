// Checks of options that several connectors have.
import { badArg, isRecord } from '../../base/checks.js';
import { checkNames, type KnownNames } from '../../base/known-names.js';
import { BlockArena } from '../../transfer/block-arena.js';
import { type LaneFactory, laneBetween } from './kv-lanes.js';
import type { KvMemory, LanedMemory } from './kv-memory.js';

/** Checks that options are an object and have only known names. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkOptions(options: unknown, known: KnownNames): void {
  if (!isRecord(options)) throw badArg(known.what, options, 'an object');
  checkNames(options, known);
}

/** Returns the lane factory; undefined means `laneBetween`. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkLaneFactory(makeLane: unknown, { kv }: KvMemory | LanedMemory): LaneFactory {
  if (makeLane === undefined) return laneBetween;
  if (!(kv instanceof BlockArena))
    throw badArg('makeLane', makeLane, 'absent, since this KV memory makes its own lanes');
  if (typeof makeLane !== 'function') throw badArg('makeLane', makeLane, 'a function that makes a lane');
  return makeLane as LaneFactory;
}

/** Returns the clock; undefined means `performance.now`. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkClock(now: unknown): () => number {
  if (now === undefined) return () => performance.now();
  if (typeof now !== 'function') throw badArg('now', now, 'a function that returns milliseconds');
  return now as () => number;
}
