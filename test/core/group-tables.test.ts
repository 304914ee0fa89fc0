// With KV cache groups, each group's tables are the rows of the core, also where places hold
// nothing.
import { describe, expect, it } from 'vitest';
import { type Core, PendingOp } from '../../src/core/core.js';
import { loadAddon } from '../../src/core/loader.js';
import type { NativeGroup } from '../../src/core/native/native-groups.js';
import { tablesBytes } from '../../src/core/tables.js';
import { type Plan, Scheduler, type StepTables } from '../../src/index.js';
import { BenchCore, codeOf, range } from '../support/core-bench.js';
import { isQuick, share } from '../support/share.js';
import { FULL, liveWithGroups, randomGroups, SLIDING } from './group-life.js';

/** The correct content of the tables of each group for a plan, from the core's own state. */
function expected(core: Core, tables: StepTables, plan: Pick<Plan, 'numRequests'> & Entries): unknown[] {
  return tables.groups.map(({ blockSize, maxBlocksPerRow }, g) => {
    const slotMapping = new BigInt64Array(tables.maxTokens).fill(-1n);
    const blockTable = new Int32Array(tables.maxEntries * maxBlocksPerRow);
    let token = 0;
    for (let e = 0; e < plan.numRequests; e++) {
      const row = core.blocks(plan.slots[e], g);
      blockTable.set(row, e * maxBlocksPerRow);
      const end = plan.numComputedTokens[e] + plan.numScheduledTokens[e];
      for (let p = plan.numComputedTokens[e]; p < end; p++, token++) {
        const block = row[Math.floor(p / blockSize)];
        if (block !== 0) slotMapping[token] = BigInt(block * blockSize + (p % blockSize));
      }
    }
    return { slotMapping, blockTable };
  });
}

type Entries = Pick<Plan, 'slots' | 'numComputedTokens' | 'numScheduledTokens'>;

function contentOf(tables: StepTables): unknown[] {
  return tables.groups.map(({ slotMapping, blockTable }) => ({ slotMapping, blockTable }));
}

function bench(groups: NativeGroup[] = [FULL, { ...SLIDING, blockSize: 8 }], config = {}): BenchCore {
  return new BenchCore(loadAddon(), { groups, maxTokens: 40, ...config });
}

/** A slot with a prompt of which the first tokens are scheduled. */
function start(core: BenchCore, length: number, scheduled = length): number {
  const slot = core.open(range(length));
  expect(core.native.admitGroups(slot, 0, 0, 0, scheduled, 0, 0, true)).toBeGreaterThanOrEqual(0);
  return slot;
}

describe('the tables of KV cache groups', () => {
  const seen = new Set<string>();
  it.each(range(share(2, 12, 24), 1))(
    'hold the rows of each group, whatever stood there before: random groups %i',
    (seed) => {
      const options = randomGroups(seed);
      using scheduler = new Scheduler(options);
      const { core } = scheduler;
      const addresses = new Map<number, StepTables>();
      liveWithGroups(scheduler, seed, 250, (plan) => {
        const tables = core.gather(plan.frame, plan.numRequests);
        expect(addresses.get(plan.frame) ?? tables).toBe(tables);
        addresses.set(plan.frame, tables);
        expect(contentOf(tables)).toEqual(expected(core, tables, plan));
        // The tables of the plan that belong to no group.
        const starts = [...tables.queryStart.subarray(0, plan.numRequests + 1)];
        const lengths = starts.slice(1).map((end, e) => end - starts[e]);
        expect(lengths).toEqual([...plan.numScheduledTokens.subarray(0, plan.numRequests)]);
        for (const [g, { type, mode }] of (scheduler.config.kvGroups?.list ?? []).entries()) {
          const { blockTable, maxBlocksPerRow } = tables.groups[g];
          const row = [...blockTable.subarray(0, maxBlocksPerRow)].join();
          if (/^0,(.*,)?[1-9]/.test(row)) seen.add(`${type} ${mode}`);
        }
      });
    },
  );

  it.skipIf(isQuick)('had places that hold nothing in every kind of group that lets go', () => {
    expect([...seen].sort()).toEqual(['chunked null', 'mamba align', 'mamba all', 'sliding null']);
  });

  it('lie in one buffer: the slot mappings first, and the block tables last', () => {
    using core = bench();
    const slot = start(core, 9);
    core.entry(0, slot, 0, 9);
    const tables = core.gather(0, 1);
    const [first, second] = tables.groups;
    expect(first.slotMapping).toBe(tables.slotMapping);
    expect(first.blockTable).toBe(tables.blockTable);
    expect([first.blockSize, second.blockSize]).toEqual([4, 8]);
    expect([tables.maxBlocksPerRow, first.maxBlocksPerRow, second.maxBlocksPerRow]).toEqual([16, 16, 8]);
    expect(tables.buffer.byteLength).toBe(tablesBytes(tables, tables.groups));
    expect(tables.buffer.byteLength).toBe(40 * (8 + 8 + 4) + 4 * (3 * 8 + 1 + 8 * (16 + 8)));
    const order = [
      first.slotMapping,
      second.slotMapping,
      tables.inputIds,
      tables.queryStart,
      tables.seqLens,
      tables.numComputedTokens,
      first.blockTable,
      second.blockTable,
    ];
    let at = 0;
    for (const array of order) {
      expect([array.buffer, array.byteOffset]).toEqual([tables.buffer, at]);
      at += array.byteLength;
    }
    expect(at).toBe(tables.buffer.byteLength);
    expect(Object.isFrozen(tables.groups) && Object.isFrozen(second)).toBe(true);
  });

  it('clear what is let go behind the last gather of a frame, also when others were gathered between', () => {
    using core = bench([FULL, SLIDING]);
    const slot = start(core, 30, 9);
    core.entry(0, slot, 0, 9);
    const tables = core.gather(0, 1);
    expect([...tables.groups[1].blockTable.subarray(0, 4)]).toEqual([4, 5, 6, 0]);
    core.entry(0, slot, 9, 12);
    core.native.run(0, 0, 1);
    core.entry(0, slot, 21, 1);
    core.native.run(0, 0, 1);
    core.gather(0, 1);
    const row = [...core.blocks(slot, 1)];
    expect(row.slice(0, 4)).toEqual([0, 0, 0, 0]);
    expect([...tables.groups[1].blockTable.subarray(0, row.length)]).toEqual(row);
  });

  it('without groups are those of one group', () => {
    using core = new BenchCore(loadAddon(), { maxTokens: 40 });
    const { groups, slotMapping, blockTable } = core.gather(0, 0);
    expect(groups).toHaveLength(1);
    expect(groups[0]).toEqual({ slotMapping, blockTable, blockSize: 4, maxBlocksPerRow: 16 });
    expect(groups[0].blockTable).toBe(blockTable);
  });
});

describe('a gather with KV cache groups that makes no sense', () => {
  const cases: [string, (core: BenchCore, slot: number) => [number, number, number], string][] = [
    ['a slot that was never open', () => [7, 8, 1], 'ERR_BLOCKSTEP_BAD_SLOT'],
    ['a negative slot', () => [-1, 8, 1], 'ERR_BLOCKSTEP_BAD_SLOT'],
    [
      'a slot that was closed meanwhile',
      (core, slot) => {
        core.close(slot);
        return [slot, 8, 1];
      },
      'ERR_BLOCKSTEP_BAD_SLOT',
    ],
    [
      'a slot that lost its blocks meanwhile',
      (core, slot) => {
        core.push(PendingOp.release, slot, 0);
        return [slot, 8, 1];
      },
      'ERR_BLOCKSTEP_NO_ROW',
    ],
    ['a slot without a row', (core) => [core.open([1]), 0, 1], 'ERR_BLOCKSTEP_NO_ROW'],
    // 12 tokens fit into the blocks of the first group, 16 into those of the second.
    ['more tokens than blocks in one group', (_, slot) => [slot, 8, 5], 'ERR_BLOCKSTEP_BAD_ARG'],
    [
      'a token whose block was let go',
      (core, slot) => {
        core.native.dropGroups(slot, 12);
        return [slot, 7, 1];
      },
      'ERR_BLOCKSTEP_BAD_ARG',
    ],
    ['nothing to compute', (_, slot) => [slot, 8, 0], 'ERR_BLOCKSTEP_BAD_ARG'],
    ['more tokens than the tables have room for', (_, slot) => [slot, 0, 9], 'ERR_BLOCKSTEP_BAD_ARG'],
  ];
  it.each(cases)('%s is refused and nothing is written', (_, entry, code) => {
    using core = bench(undefined, { maxTokens: 8 });
    const slot = start(core, 9);
    const fine = start(core, 5);
    core.entry(0, fine, 4, 1);
    core.entry(1, slot, 8, 1);
    const tables = core.gather(0, 2);
    core.entry(0, fine, 0, 2);
    core.entry(1, ...entry(core, slot));
    const before = structuredClone([contentOf(tables), tables.seqLens]);
    expect(codeOf(() => core.gather(0, 2))).toBe(code);
    expect([contentOf(tables), tables.seqLens]).toEqual(before);
    core.entry(1, fine, 4, 1);
    core.gather(0, 2);
  });
});
