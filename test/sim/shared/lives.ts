import { describe, expect, it } from 'vitest';
import { isQuick } from '../../support/share.js';
import type { Faulty } from './dice.js';
import type { Loop } from './loop.js';
import type { Tally } from './run.js';

/** A small share of the seeds of one simulator. */
interface Lives {
  numSeeds: number;
  /** Events with faults of each. */
  steps: number;
  /** The events that simulated lives are for. */
  wanted: readonly string[];
  /** The least number of times that each of them must happen. */
  often: number;
  /** The seed that is lived twice, and with how many events. */
  again: readonly [seed: number, steps: number];
}

/** Tests: nothing breaks, everything that a simulation is for happens, and a seed is the same again. */
export function describeLives<S extends Faulty<F>, F extends string>(
  loop: Loop<S, F>,
  { numSeeds, steps, wanted, often, again }: Lives,
): void {
  describe(`simulated lives: ${loop.name}`, () => {
    const total: Tally = {};

    for (let seed = 0; seed < numSeeds; seed++) {
      it(`seed ${seed}: what must hold holds after every event, and nothing is left when the faults are over`, async () => {
        const { failure, tally } = await loop.run(seed, { steps, without: [] });
        expect(failure?.message).toBeUndefined();
        for (const [what, count] of Object.entries(tally)) total[what] = (total[what] ?? 0) + count;
      });
    }

    it.skipIf(isQuick)('do everything that they are for', () => {
      for (const what of wanted) expect(total[what] ?? 0, what).toBeGreaterThanOrEqual(often);
    });

    it('are the same again from the same seed, to the last word', async () => {
      const journals: (readonly string[])[] = [];
      for (let run = 0; run < 2; run++) {
        const life = loop.live(loop.draw(again[0]));
        await life.run(again[1]);
        journals.push(life.journal.slice());
        life.dispose();
      }
      expect(journals[0].length).toBeGreaterThan(20);
      expect(journals[1]).toEqual(journals[0]);
    });
  });
}
