// Whole lives with and without a steady decode, which must be the same.
import { describe, expect, it } from 'vitest';
import { share } from '../support/share.js';
import { ENGINE_LOOP } from './engine/run.js';
import { SCHEDULER_LOOP } from './scheduler/run.js';

/** Lives of an engine take three times as long. */
const SEEDS = { scheduler: share(4, 40, 500), engine: share(1, 40, 500) };
const STEPS = 1000;

/** One life, with or without a steady decode: its journal, and everything that was counted. */
async function live(loop: 'scheduler' | 'engine', seed: number, steadyDecode: boolean) {
  const life = loop === 'scheduler' ? schedulerLife(seed, steadyDecode) : engineLife(seed, steadyDecode);
  try {
    await life.run(STEPS);
    const { steadyEntries = 0, repeatedSteps = 0, ...tally } = life.tally;
    return { said: [...life.journal], tally, numSteady: steadyEntries + repeatedSteps };
  } finally {
    life.dispose();
  }
}

function schedulerLife(seed: number, steadyDecode: boolean) {
  const setup = SCHEDULER_LOOP.draw(seed);
  return SCHEDULER_LOOP.live({ ...setup, scheduler: { ...setup.scheduler, steadyDecode } });
}

function engineLife(seed: number, steadyDecode: boolean) {
  const setup = ENGINE_LOOP.draw(seed);
  return ENGINE_LOOP.live({ ...setup, engine: { ...setup.engine, steadyDecode } });
}

/** The next seed from this one on whose options allow a steady decode. */
function nextSteady(loop: 'scheduler' | 'engine', seed: number): number {
  const options = loop === 'scheduler' ? SCHEDULER_LOOP.draw(seed).scheduler : ENGINE_LOOP.draw(seed).engine;
  const { numSpeculativeTokens, kvGroups, padDecode } = options;
  const isPlain = !numSpeculativeTokens && !padDecode && (kvGroups ?? null) === null;
  return isPlain ? seed : nextSteady(loop, seed + 1);
}

/**
 * Lives in which a load fails while later steps of its request are in flight. Their results are
 * dropped, and the request goes on running.
 */
const DROPPED = { scheduler: [90_000_006, 90_015_000], engine: [90_005_001] } as const;

describe.each(['scheduler', 'engine'] as const)('F63 simulated twins: %s', (loop) => {
  const numSeeds = SEEDS[loop];
  it(`say the same with and without a steady decode, in ${numSeeds} lives`, async () => {
    let numSteady = 0;
    const seeds: number[] = [...DROPPED[loop]];
    for (let seed = 50_000; seeds.length < numSeeds + DROPPED[loop].length; seeds.push(seed))
      seed = nextSteady(loop, seed + 1);
    for (const seed of seeds) {
      const [on, off] = [await live(loop, seed, true), await live(loop, seed, false)];
      expect([seed, on.said, on.tally]).toEqual([seed, off.said, off.tally]);
      expect(off.numSteady).toBe(0);
      numSteady += on.numSteady;
    }
    if (loop === 'scheduler') expect(numSteady).toBeGreaterThan(10 * numSeeds);
  });
});
