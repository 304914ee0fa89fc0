// Random lives over a disk, and their checks.
import { expect } from 'vitest';
import type { EngineOptions } from '../../../src/engine/state/options.js';
import { live } from './life.js';

/**
 * A life of an engine over two ranks whose blocks go to host memory and then to disk. Every text is
 * that of an unlimited pool, and nothing is left behind.
 * @param path the folder on disk
 */
export async function liveOverDisk(
  path: string,
  seed: number,
  engine: Partial<EngineOptions>,
): Promise<void> {
  const { bench, ends, expected } = await live({
    ...{ seed, engine, numRanks: 2, hostBlocks: 24, realLanes: false },
    disk: { path, model: 'm', budgetMs: 200 },
    ...{ numRequests: 60, numPrompts: 20, aborts: 20, sessions: 10, failures: 5 },
  });
  expect(bench.executor.faults).toEqual([]);
  for (const [i, { tokens, finishReason }] of ends.entries())
    if (finishReason !== 'error')
      expect(tokens).toEqual(finishReason === 'length' ? expected[i] : expected[i].slice(0, tokens.length));
  expect(bench.leftovers()).toEqual([]);
  expect(bench.connector.stats().disk?.readBlocks).toBeGreaterThan(0);
  await bench.close();
}
