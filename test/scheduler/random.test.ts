import { describe, expect, it } from 'vitest';
import { Life } from './random-life.js';
import { leftovers } from './support.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? 60);
/** Rare lives that once went wrong: a sharer preempted while its step fails; drafts of an earlier residency. */
const RARE = [452, 773, 869, 1736, 2519].filter((seed) => seed >= SEEDS);
const EVENTS = 500;

describe('random workloads over a small pool', () => {
  for (const seed of [...Array(SEEDS).keys(), ...RARE]) {
    it(`seed ${seed}: invariants hold after every call, every text is right, nothing is left at the end`, () => {
      const life = new Life(seed);
      life.run(EVENTS);
      const { driver, added } = life;
      expect(leftovers(driver.scheduler)).toEqual([]);
      for (const { handle, maxTokens } of added) {
        const [end, ...more] = driver.ends.get(handle) as string[];
        expect(more).toEqual([]);
        expect(['length', 'abort', 'error']).toContain(end);
        const text = driver.text(handle);
        expect(text).toEqual(driver.model.text(handle, text.length));
        expect(text.length).toBeLessThanOrEqual(maxTokens);
      }
      const ids = [...driver.finished].sort();
      expect(ids).toEqual(added.map(({ id }) => id).sort());
    });
  }
});
