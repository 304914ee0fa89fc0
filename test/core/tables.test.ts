// The tables of a step have every word of a plan; a senseless gather is refused.
import { describe, expect, it, vi } from 'vitest';
import { PendingOp } from '../../src/core/core.js';
import { loadAddon } from '../../src/core/loader.js';
import { type StepTables, tablesBytes, tableViews } from '../../src/core/tables.js';
import { Scheduler } from '../../src/index.js';
import { BenchCore, codeOf, range, seeded } from '../support/core-bench.js';

interface Entry {
  slot: number;
  computed: number;
  scheduled: number;
}

const BLOCK = 4;

function bench(config = {}): BenchCore {
  return new BenchCore(loadAddon(), { maxTokens: 40, ...config });
}

/** Writes a plan into a frame. */
function plan(core: BenchCore, frame: number, entries: readonly Entry[]): void {
  const { slots, numComputedTokens, numScheduledTokens } = core.frames[frame];
  entries.forEach(({ slot, computed, scheduled }, e) => {
    slots[e] = slot;
    numComputedTokens[e] = computed;
    numScheduledTokens[e] = scheduled;
  });
}

/**
 * Every word that the tables of these entries must hold, padding included, from the core's own
 * state.
 */
function expected(core: BenchCore, tables: StepTables, entries: readonly Entry[]): Record<string, unknown> {
  const inputIds: number[] = [];
  const slotMapping: bigint[] = [];
  const queryStart: number[] = [];
  const blockTable: number[] = [];
  for (const { slot, computed, scheduled } of entries) {
    const tokens = core.tokens(slot);
    const blocks = core.blocks(slot);
    queryStart.push(inputIds.length);
    for (let p = computed; p < computed + scheduled; p++) {
      inputIds.push(p < tokens.length ? tokens[p] : -1);
      slotMapping.push(BigInt(blocks[Math.floor(p / BLOCK)] * BLOCK + (p % BLOCK)));
    }
    blockTable.push(...blocks, ...new Array(tables.maxBlocksPerRow - blocks.length).fill(0));
  }
  const pad = <T>(values: T[], length: number, padding: T) => [
    ...values,
    ...new Array<T>(length - values.length).fill(padding),
  ];
  const { maxTokens, maxEntries, maxBlocksPerRow } = tables;
  return {
    inputIds: pad(inputIds, maxTokens, -1),
    slotMapping: pad(slotMapping, maxTokens, -1n),
    queryStart: pad(queryStart, maxEntries + 1, inputIds.length),
    seqLens: pad(
      entries.map(({ computed, scheduled }) => computed + scheduled),
      maxEntries,
      0,
    ),
    numComputedTokens: pad(
      entries.map(({ computed }) => computed),
      maxEntries,
      0,
    ),
    blockTable: pad(blockTable, maxEntries * maxBlocksPerRow, 0),
  };
}

function contentOf(tables: StepTables): Record<string, unknown> {
  const views = tableViews(tables.buffer, tables);
  return Object.fromEntries(Object.entries(views).map(([name, view]) => [name, Array.from<unknown>(view)]));
}

function expectTables(core: BenchCore, frame: number, entries: readonly Entry[]): StepTables {
  plan(core, frame, entries);
  const tables = core.gather(frame, entries.length);
  expect(contentOf(tables)).toEqual(expected(core, tables, entries));
  return tables;
}

describe('the tables of a step', () => {
  it('hold a plan in batch order: a decode, a chunk that starts within a block, and tokens yet to be made', () => {
    using core = bench();
    const decode = core.start(range(9, 100));
    const chunk = core.start(range(14, 200));
    core.native.admit(chunk, 0, 0, 18, 14);
    const entries = [
      { slot: decode, computed: 8, scheduled: 1 },
      { slot: chunk, computed: 6, scheduled: 11 },
    ];
    const tables = expectTables(core, 0, entries);
    expect([...tables.inputIds.subarray(0, 13)]).toEqual([108, ...range(8, 206), -1, -1, -1, -1]);
    expect([...tables.queryStart]).toEqual([0, 1, 12, 12, 12, 12, 12, 12, 12]);
    expect([...tables.seqLens.subarray(0, 3)]).toEqual([9, 17, 0]);
    expect([...tables.slotMapping.subarray(0, 4)]).toEqual([12n, 22n, 23n, 24n]);
  });

  it('are as long as stated, lie in one buffer, and stay where they are', () => {
    using core = bench();
    const slot = core.start(range(9));
    const first = expectTables(core, 0, [{ slot, computed: 0, scheduled: 9 }]);
    const other = expectTables(core, 1, [{ slot, computed: 8, scheduled: 1 }]);
    expect(first.buffer.byteLength).toBe(tablesBytes(first));
    expect(tablesBytes(first)).toBe(40 * 12 + (3 * 8 + 1 + 8 * 16) * 4);
    expect(other.buffer).not.toBe(first.buffer);
    const again = expectTables(core, 0, [{ slot, computed: 8, scheduled: 1 }]);
    expect(again).toBe(first);
    for (const view of Object.values(tableViews(first.buffer, first))) expect(view.buffer).toBe(first.buffer);
    expect([first.maxTokens, first.maxEntries, first.maxBlocksPerRow]).toEqual([40, 8, 16]);
  });

  it('are padded rightly whatever stood there before: 3,000 random plans in two frames', () => {
    using core = bench({ numRows: 8, numBlocks: 100 });
    const next = seeded(5);
    const slots: number[] = [];
    for (let round = 0; round < 3000; round++) {
      if (slots.length < 8 && next(3) === 0) slots.push(core.start(range(1 + next(40), 100 * next(3))));
      if (slots.length > 0 && next(5) === 0) core.close(slots.splice(next(slots.length), 1)[0]);
      // Rows grow while they are held, and change their holders.
      for (const slot of slots) {
        if (next(8) === 0)
          core.native.admit(slot, 0, 0, Math.min(64, core.blocks(slot).length * BLOCK + next(9)), 0);
      }
      let left = 40;
      const entries = slots
        .filter(() => next(4) > 0)
        .flatMap((slot) => {
          const room = core.blocks(slot).length * BLOCK;
          const computed = next(room);
          const scheduled = Math.min(left, 1 + next(next(2) === 0 ? 1 : room - computed));
          left -= scheduled;
          return scheduled > 0 ? [{ slot, computed, scheduled }] : [];
        });
      expectTables(core, next(2), entries);
    }
    core.native.verify();
  });

  it('see what was pending, once', () => {
    using core = bench();
    const slot = core.start(range(9));
    core.push(PendingOp.append, slot, 77);
    const tables = expectTables(core, 0, [{ slot, computed: 8, scheduled: 2 }]);
    expect([...tables.inputIds.subarray(0, 3)]).toEqual([8, 77, -1]);
    core.gather(0, 1);
    expect([...core.tokens(slot)]).toEqual([...range(9), 77]);
  });

  it('an empty plan is all padding', () => {
    using core = bench();
    expectTables(core, 0, []);
    const slot = core.start(range(9));
    expectTables(core, 0, [{ slot, computed: 0, scheduled: 9 }]);
    expectTables(core, 0, []);
  });

  it('change nothing of the state', () => {
    using core = bench();
    const slot = core.start(range(9));
    const before = core.fingerprint();
    expectTables(core, 0, [{ slot, computed: 8, scheduled: 1 }]);
    expect(core.fingerprint()).toBe(before);
  });

  it('take memory at their first use, and what is not written takes none', () => {
    const shape = { maxTokens: 1000, maxEntries: 4096, maxBlocksPerRow: 16_384 };
    const before = process.memoryUsage();
    using core = bench({ ...shape, numRows: 4096, numFrames: 4, maxModelLen: 60_000 });
    expect(process.memoryUsage().arrayBuffers - before.arrayBuffers).toBeLessThan(2e6);
    const slot = core.start(range(9));
    plan(core, 2, [{ slot, computed: 8, scheduled: 1 }]);
    core.gather(2, 1);
    const after = process.memoryUsage();
    expect(after.arrayBuffers - before.arrayBuffers).toBeGreaterThan(tablesBytes(shape) - 1e6);
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(tablesBytes(shape) + 2e6);
    expect(after.rss - before.rss).toBeLessThan(tablesBytes(shape) / 4);
  });

  it('readTokens gives the tokens of an entry, those of a cached prefix included', () => {
    using core = bench();
    core.start(range(9));
    const slot = core.start(range(13));
    const tables = expectTables(core, 0, [{ slot, computed: 8, scheduled: 5 }]);
    const out = new Int32Array(20);
    expect(tables.readTokens(0, 0, out)).toBe(13);
    expect([...out.subarray(0, 14)]).toEqual([...range(13), 0]);
    expect(tables.readTokens(0, 12, out)).toBe(1);
    expect(tables.readTokens(0, 13, out)).toBe(0);
    for (const bad of [1, -1, 0.5, '0', 2 ** 40]) {
      expect(codeOf(() => tables.readTokens(bad as number, 0, out))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    core.close(slot);
    expect(codeOf(() => tables.readTokens(0, 0, out))).toBe('ERR_BLOCKSTEP_BAD_SLOT');
    core.gather(0, 0);
    expect(codeOf(() => tables.readTokens(0, 0, out))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('a scheduler gathers its plans, within the tokens that it schedules', () => {
    using scheduler = new Scheduler({
      numBlocks: 50,
      maxNumSeqs: 4,
      maxNumBatchedTokens: 60,
      maxModelLen: 64,
      blockSize: 8,
    });
    scheduler.add({ id: 'a', prompt: Int32Array.from(range(50)), maxTokens: 4 });
    scheduler.add({ id: 'b', prompt: Int32Array.from(range(20, 100)), maxTokens: 4 });
    const plan = scheduler.schedule();
    const tables = scheduler.core.gather(plan.frame, plan.numRequests);
    expect(tables.maxTokens).toBe(60);
    expect([...tables.queryStart]).toEqual([0, 50, 60, 60, 60]);
    expect([...tables.inputIds]).toEqual([...range(50), ...range(10, 100)]);
    using small = new Scheduler({ numBlocks: 50, maxNumSeqs: 2, maxModelLen: 64 });
    expect(small.core.gather(0, 0).maxTokens).toBe(128);
  });
});

describe('a gather that makes no sense', () => {
  const good = { computed: 8, scheduled: 1 };
  const cases: [string, (core: BenchCore, slot: number) => Entry[], string][] = [
    ['a slot that was never open', () => [{ slot: 5, ...good }], 'ERR_BLOCKSTEP_BAD_SLOT'],
    ['a negative slot', () => [{ slot: -1, ...good }], 'ERR_BLOCKSTEP_BAD_SLOT'],
    [
      'a slot that was closed meanwhile',
      (core, slot) => {
        core.close(slot);
        return [{ slot, ...good }];
      },
      'ERR_BLOCKSTEP_BAD_SLOT',
    ],
    [
      'a slot that lost its blocks meanwhile',
      (core, slot) => {
        core.push(PendingOp.release, slot, 0);
        return [{ slot, ...good }];
      },
      'ERR_BLOCKSTEP_NO_ROW',
    ],
    [
      'a slot without a row',
      (core) => [{ slot: core.open([1]), computed: 0, scheduled: 1 }],
      'ERR_BLOCKSTEP_NO_ROW',
    ],
    ['more tokens than blocks', (_, slot) => [{ slot, computed: 8, scheduled: 5 }], 'ERR_BLOCKSTEP_BAD_ARG'],
    ['nothing to compute', (_, slot) => [{ slot, computed: 8, scheduled: 0 }], 'ERR_BLOCKSTEP_BAD_ARG'],
    ['a negative count', (_, slot) => [{ slot, computed: -1, scheduled: 1 }], 'ERR_BLOCKSTEP_BAD_ARG'],
    [
      'counts that overflow',
      (_, slot) => [{ slot, computed: 2 ** 31 - 1, scheduled: 2 ** 31 - 1 }],
      'ERR_BLOCKSTEP_BAD_ARG',
    ],
    [
      'more tokens than the tables have room for',
      (_, slot) => new Array(4).fill({ slot, computed: 0, scheduled: 9 }),
      'ERR_BLOCKSTEP_BAD_ARG',
    ],
  ];
  it.each(cases)('%s is refused and nothing is written', (_, entries, code) => {
    using core = bench({ maxTokens: 35 });
    const slot = core.start(range(9));
    const fine = core.start(range(9, 50));
    const tables = expectTables(core, 0, [{ slot, ...good }]);
    // The first entry is fine, so that a gather that writes as it checks is found out.
    const wrong = [{ slot: fine, computed: 0, scheduled: 2 }, ...entries(core, slot)];
    plan(core, 0, wrong);
    const before = [contentOf(tables), core.fingerprint()];
    expect(codeOf(() => core.gather(0, wrong.length))).toBe(code);
    expect([contentOf(tables), core.fingerprint()]).toEqual(before);
  });

  it('takes no memory for a frame that there is not, or for too many entries', () => {
    using core = bench();
    for (const frame of [2, -1, 0.5, Number.NaN, '0', undefined, 2 ** 53]) {
      expect(codeOf(() => core.gather(frame as number, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    for (const n of [9, -1, 0.5, Number.NaN, '0', undefined, 2 ** 53]) {
      expect(codeOf(() => core.gather(0, n as number))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(codeOf(() => core.native.gather(0, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG'); // still without tables
    core.gather(0, 0);
    for (const n of [9, -1, 0.5, Number.NaN, '0', undefined, 2 ** 53]) {
      expect(codeOf(() => core.gather(0, n as number))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('tables that were given away are missed; the other frames go on', () => {
    using core = bench();
    const tables = core.gather(0, 0);
    structuredClone(tables.buffer, { transfer: [tables.buffer] });
    expect(codeOf(() => core.gather(0, 0))).toBe('ERR_BLOCKSTEP_DETACHED');
    core.gather(1, 0);
    core.dispose();
    expect(codeOf(() => core.gather(1, 0))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('a size that no machine has is answered with a code', () => {
    using core = bench({ maxTokens: 2 ** 31 - 1, maxEntries: 2 ** 20, maxBlocksPerRow: 2 ** 20 });
    expect(codeOf(() => core.gather(0, 0))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
    for (const maxTokens of [0, -1, 0.5, 2 ** 31, '8']) {
      expect(codeOf(() => bench({ maxTokens: maxTokens as number }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('a size that no array has is answered with a code, on a machine that gives the buffer, too', () => {
    using core = bench();
    // For every request, the buffer that comes is too short for its arrays. They refuse it as they
    // refuse an impossible length.
    class ShortBuffer extends ArrayBuffer {
      constructor() {
        super(8);
      }
    }
    vi.stubGlobal('ArrayBuffer', ShortBuffer);
    try {
      expect(codeOf(() => core.gather(0, 0))).toBe('ERR_BLOCKSTEP_NO_MEMORY');
    } finally {
      vi.unstubAllGlobals();
    }
    expect(core.gather(0, 0).maxEntries).toBe(8);
  });
});
