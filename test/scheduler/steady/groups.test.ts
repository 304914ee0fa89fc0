// Steps that are repeated with KV cache groups.
import { describe, expect, it } from 'vitest';
import type { KvGroupOptions } from '../../../src/index.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';

const FULL: KvGroupOptions = { type: 'full' };
const WINDOW: KvGroupOptions = { type: 'sliding', window: 6 };
const GROUPS: readonly KvGroupOptions[][] = [
  [FULL, WINDOW],
  [FULL, WINDOW, { type: 'sliding', window: 20 }],
  [FULL, { type: 'chunked', chunk: 8 }],
  [FULL, { type: 'mamba' }],
  [FULL, { type: 'mamba', mode: 'all' }],
  [FULL, { type: 'sliding', window: 6, blockSize: 8 }],
];

describe('F63 a repeated step with KV cache groups', () => {
  it.each(GROUPS)('has the texts of the model, and leaves nothing behind', (...kvGroups) => {
    const driver = new Driver({ now: () => 1000, kvGroups, blockSize: 4, numBlocks: 200 });
    const handles = ['a', 'b', 'c'].map((id, seed) =>
      driver.add({ id, prompt: prompt(9 + seed, seed), maxTokens: 40 }),
    );
    let numRepeated = 0;
    while (driver.scheduler.hasWork()) {
      const plan = driver.schedule();
      if (plan.repeats > 0) numRepeated++;
      driver.update(plan);
    }
    expect(numRepeated).toBeGreaterThan(25);
    for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 40));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('is none while there are blocks for one group only', () => {
    const options = { blockSize: 4, enablePrefixCaching: false, now: () => 1000 };
    const driver = new Driver({
      ...options,
      kvGroups: [FULL, { type: 'sliding', window: 100 }],
      numBlocks: 16,
    });
    const handles = ['a', 'b'].map((id, seed) => driver.add({ id, prompt: prompt(9, seed), maxTokens: 8 }));
    while (driver.scheduler.stats().numPreemptions === 0) driver.step();
    driver.run();
    for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 8));
  });

  it.each([true, false])(
    'or one by the rules keeps no notes of dropped blocks that nobody asks for (steady: %s)',
    (steadyDecode) => {
      const driver = new Driver({
        now: () => 1000,
        kvGroups: [FULL, WINDOW],
        blockSize: 4,
        numBlocks: 200,
        steadyDecode,
      });
      driver.add({ id: 'a', prompt: prompt(9), maxTokens: 80 });
      for (let i = 0; i < 60; i++) driver.step();
      expect(driver.scheduler.stats().groups[1].droppedBlocks).toBeGreaterThan(10);
      // Five numbers for each block.
      expect(driver.scheduler.core.native.drainDropped()?.length ?? 0).toBeLessThanOrEqual(5);
    },
  );
});
