// Runs all parts for one addon; versions, back ends, sizes of a pool.
import { describe, expect, it } from 'vitest';
import type { NativeAddon } from '../../../src/core/native/native.js';
import { BenchCore, codeOf, range } from '../../support/core-bench.js';
import { describeLog, describePool } from './pool.js';
import { describeAdmission, describeRequests } from './requests.js';
import { describePending, describeRun } from './steps.js';

/** The contract of every build of the addon, entry by entry. */
export function contractSuite(name: string, load: () => NativeAddon): void {
  describe(`contract: ${name}`, () => {
    const bench = (config = {}) => new BenchCore(load(), config);
    describeModule(load);
    describeRequests(bench);
    describeAdmission(bench);
    describeRun(bench);
    describePending(bench);
    describePool(bench);
    describeLog(load, bench);
  });
}

function describeModule(load: () => NativeAddon): void {
  it('names its abi and its back ends', () => {
    expect(load().abi).toBe(12);
    expect(load().backends).toContain('host');
    expect(Object.isFrozen(load().backends)).toBe(true);
  });

  it('starts with every block but the null block free, in ascending order', () => {
    using core = new BenchCore(load());
    expect([...core.freeQueue()]).toEqual(range(32, 1));
    expect([core.freeBlocks, core.publishedBlocks, core.rowsInUse, core.evictions, core.usage]).toEqual([
      32, 0, 0, 0, 0,
    ]);
    core.native.verify();
  });

  it('makes a huge pool without touching its table', () => {
    const before = process.memoryUsage().rss;
    using core = new BenchCore(load(), {
      numBlocks: 1_048_576,
      numRows: 4096,
      maxBlocksPerRow: 16_384,
      blockSize: 16,
      maxModelLen: 262_144,
    });
    const { stateBytes, bytesPerBlock } = core.native.memory();
    expect(stateBytes).toBeGreaterThan(4096 * 16_384 * 4);
    expect(bytesPerBlock).toBeGreaterThan(48);
    expect(process.memoryUsage().rss - before).toBeLessThan(stateBytes / 2);
  });

  it('answers an impossible size with a code', () => {
    const huge = { numBlocks: 2 ** 24, numRows: 2 ** 21, maxBlocksPerRow: 2 ** 24 };
    expect(codeOf(() => new BenchCore(load(), huge))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
  });
}
