// Random lives: every text is right, and in the end nothing is left.
import { describe, expect, it } from 'vitest';
import { share } from '../../support/share.js';
import { type Happened, Life } from './life.js';

describe('random lives of engines that hand KV over', () => {
  const sum: Happened = {};

  it.each(Array.from({ length: share(6, 12, 24) }, (_, i) => i + 1))(
    'every text is right and nothing is left (seed %i)',
    async (seed) => {
      const life = new Life(seed);
      await life.run(60);
      life.check();
      for (const [name, count] of Object.entries(life.happened)) sum[name] = (sum[name] ?? 0) + count;
    },
  );

  it('a seed decides everything', async () => {
    const run = async (): Promise<readonly unknown[]> => {
      const life = new Life(7);
      await life.run(60);
      return [life.diary, life.happened, life.world.time];
    };
    const first = await run();
    expect(first[0]).not.toHaveLength(0);
    expect(await run()).toEqual(first);
  });

  // That peers die and return is rare here, and looked at in `peers.test.ts`.
  it('all of it happened', () => {
    const names = ['ok', 'refused', 'failed', 'released', 'expired', 'cancelled', 'memory', 'messages'];
    for (const name of [...names, 'restarts', 'strangers', 'late', 'dropped', 'doubled']) {
      expect(sum[name], name).toBeGreaterThan(0);
    }
  });
});
