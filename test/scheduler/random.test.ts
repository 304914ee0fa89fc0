import { describe, expect, it } from 'vitest';
import { Life } from './random-life.js';
import { leftovers } from './support.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? 60);
const EVENTS = 500;

describe('random workloads over a small pool', () => {
  for (let seed = 0; seed < SEEDS; seed++) {
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
