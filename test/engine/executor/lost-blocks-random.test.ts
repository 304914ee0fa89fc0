// Random lives in which the executor loses blocks: every text stays right.
import { describe, expect, it } from 'vitest';
import type { EngineOptions } from '../../../src/index.js';
import { leftovers } from '../../support/engine-bench.js';
import { AttentiveExecutor, moody } from './attentive-executor.js';
import { AttentiveLife } from './attentive-life.js';

/** A life whose executor loses blocks: some that its steps read, and some of the others. @returns also how many it lost */
async function forgetfulLife(
  seed: number,
  failing: number,
  options: Partial<EngineOptions>,
): Promise<{ life: AttentiveLife; lost: number }> {
  let lost = 0;
  const make = (shape: { numBlocks: number; blockSize: number }, random: AttentiveLife['random']) => {
    const executor = new AttentiveExecutor(shape);
    executor.mood = moody(random, failing);
    executor.loses = (): number[] => {
      if (!random.chance(12)) return [];
      const blocks = Array.from({ length: 1 + random.below(3) }, () => 1 + random.below(shape.numBlocks - 1));
      lost += blocks.length;
      return blocks;
    };
    return executor;
  };
  const life = new AttentiveLife(seed, make, options);
  await life.run(160);
  return { life, lost };
}

// Pinned by: all of `lost-blocks.ts`, `someSharerLeft` (bad-blocks.ts).
describe('lives in which the executor loses blocks', () => {
  it.each([
    ['recompute', 0],
    ['recompute', 40],
    ['fail', 20],
  ] as const)(
    'policy %s, %i of a thousand steps fail: every text is that of the model',
    async (policy, failing) => {
      const wrong: string[] = [];
      const finished = { length: 0, error: 0 };
      let lost = 0;
      for (let seed = 0; seed < 40; seed++) {
        const { life, lost: some } = await forgetfulLife(seed, failing, { loadFailurePolicy: policy });
        lost += some;
        const { finished: ends } = life.engine.stats().scheduler;
        finished.length += ends.length;
        finished.error += ends.error;
        for (const what of await life.wrongTexts()) wrong.push(`seed ${seed}: ${what}`);
        wrong.push(...leftovers(life.engine).map((what) => `seed ${seed}: ${what} left`));
        life.engine.dispose();
      }
      expect(wrong).toEqual([]);
      expect(lost).toBeGreaterThan(100);
      expect(finished.length).toBeGreaterThan(200);
      if (policy === 'fail' || failing > 0) expect(finished.error).toBeGreaterThan(40);
    },
  );
});
