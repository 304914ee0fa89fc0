import { describe, expect, it } from 'vitest';
import { seeded } from '../../../support/core-bench.js';
import { live } from '../lives.js';
import { ReferenceDriver } from '../support.js';
import { drawChunks, drawGroupOptions } from './draw.js';

/** How often each thing happened that the lives are to go through. */
const seen = { hits: 0, preemptions: 0, types: new Set<string>() };

const TITLE = 'every text is that of an unpaged computation, and the memory is never wrong';

describe('random lives over chunks that begin inside blocks', () => {
  for (let seed = 1; seed <= 60; seed++) {
    it(`seed ${seed}: ${TITLE}`, async () => {
      const next = seeded(seed);
      const options = drawGroupOptions(next, (1 + (seed % 2)) as 1 | 2, drawChunks);
      using driver = new ReferenceDriver(options, { seed: next(1000), onMismatch: 'report' });
      await live(driver, next, 300);
      expect(driver.executor.faults).toEqual([]);
      for (const [handle, text] of driver.texts) expect(text).toEqual(driver.expectedText(handle));
    });
  }
});

describe('random lives over KV cache groups', () => {
  for (let seed = 1; seed <= 120; seed++) {
    it(`seed ${seed}: ${TITLE}`, async () => {
      const next = seeded(seed);
      const options = drawGroupOptions(next, (1 + (seed % 2)) as 1 | 2);
      using driver = new ReferenceDriver(options, { seed: next(1000), onMismatch: 'report' });
      const before = driver.scheduler.core.freeBlocks;
      await live(driver, next, 300);
      expect(driver.executor.faults).toEqual([]);
      for (const [handle, text] of driver.texts) expect(text).toEqual(driver.expectedText(handle));
      expect(driver.scheduler.core.freeBlocks).toBe(before);
      const { prefixCacheHits, numPreemptions } = driver.scheduler.stats();
      seen.hits += prefixCacheHits;
      seen.preemptions += numPreemptions;
      for (const { type, mode } of driver.scheduler.config.kvGroups?.list ?? [])
        seen.types.add(`${type} ${mode}`);
    });
  }

  it('go through hits, preemptions, and groups of every type', () => {
    expect(seen.hits).toBeGreaterThan(0);
    expect(seen.preemptions).toBeGreaterThan(0);
    expect([...seen.types].sort()).toEqual([
      'chunked null',
      'full null',
      'mamba align',
      'mamba all',
      'mamba none',
      'mla null',
      'sink null',
      'sliding null',
    ]);
  });
});
