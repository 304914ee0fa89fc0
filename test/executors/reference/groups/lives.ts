// Random lives over random KV cache groups.
import { expect } from 'vitest';
import type { ReferenceExecutorOptions, SchedulerOptions, SchedulerStats } from '../../../../src/index.js';
import type { SchedulerConfig } from '../../../../src/scheduler/options/options.js';
import { seeded } from '../../../support/core-bench.js';
import { live } from '../lives.js';
import { ReferenceDriver, type TablesIn } from '../support.js';

/** The statistics and configuration of a life. */
export interface Lived {
  stats: SchedulerStats;
  config: SchedulerConfig;
}

/**
 * A random life over drawn groups, with some wrong drafts. Every text must be that of an unpaged
 * computation, the memory must never be wrong, and all blocks come back.
 */
export async function groupLife(
  seed: number,
  draw: (next: (n: number) => number) => Partial<SchedulerOptions>,
  where: Pick<ReferenceExecutorOptions, 'device'> = {},
  tables: TablesIn = 'pinned',
): Promise<Lived> {
  const next = seeded(seed);
  const options = draw(next);
  const { numSpeculativeTokens = 0 } = options;
  const drafts = numSpeculativeTokens > 0 ? { draftErrorRate: [0, 0.3, 1][next(3)] } : {};
  using driver = new ReferenceDriver(
    options,
    { seed: next(1000), ...drafts, onMismatch: 'report', ...where },
    tables,
  );
  const before = driver.scheduler.core.freeBlocks;
  await live(driver, next, 300);
  expect(driver.executor.faults).toEqual([]);
  for (const [handle, text] of driver.texts) expect(text).toEqual(driver.expectedText(handle));
  expect(driver.scheduler.core.freeBlocks).toBe(before);
  return { stats: driver.scheduler.stats(), config: driver.scheduler.config };
}
