// The statistics of each group, and the group of each block, recounted at every step.
import { describe, expect, it, onTestFinished } from 'vitest';
import { Random } from '../../../src/base/random.js';
import { rowsOf } from '../../../src/core/rows.js';
import { type KvGroupOptions, Scheduler, type SchedulerOptions } from '../../../src/index.js';

const OPTIONS = {
  blockSize: 4,
  maxModelLen: 96,
  maxNumSeqs: 6,
  maxNumBatchedTokens: 24,
  deadlines: false,
} as const;

function schedulerOf(options: Partial<SchedulerOptions>): Scheduler {
  const scheduler = new Scheduler({ numBlocks: 60, ...OPTIONS, ...options });
  onTestFinished(() => scheduler.dispose());
  return scheduler;
}

/** Lives of random requests; `check` looks behind each plan. */
function live(scheduler: Scheduler, steps: number, check: () => void): void {
  const random = new Random(11);
  for (let step = 0; step < steps; step++) {
    if (random.below(3) === 0) {
      const prompt = Int32Array.from({ length: 1 + random.below(40) }, (_, i) => i);
      scheduler.add({ id: `r${step}`, prompt, maxTokens: 1 + random.below(30) });
    }
    const plan = scheduler.schedule();
    check();
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const total = counts.reduce((sum, count) => sum + count, 0);
    scheduler.update(plan, { tokens: new Int32Array(total).fill(9), counts });
  }
}

const LAYOUTS: [string, KvGroupOptions[]][] = [
  ['windows', [{ type: 'full' }, { type: 'sliding', window: 6 }, { type: 'chunked', chunk: 8 }]],
  ['states', [{ type: 'full' }, { type: 'mamba', mode: 'align' }]],
  [
    'sinks and sizes',
    [
      { type: 'sink', sinkTokens: 8 },
      { type: 'sliding', window: 6, blockSize: 8 },
    ],
  ],
];

describe('the statistics of groups', () => {
  it.each(LAYOUTS)('%s: count what the rows have, at every step', (_, kvGroups) => {
    const scheduler = schedulerOf({ kvGroups });
    let dropped = kvGroups.map(() => 0);
    let seen = 0;
    live(scheduler, 200, () => {
      const { groups, kvCacheUsage, rowsInUse } = scheduler.stats();
      const rows = scheduler.inspect().requests.map(({ slot }) => rowsOf(scheduler.core, slot));
      expect(rowsInUse).toBe(rows.filter((parts) => parts.some(({ length }) => length > 0)).length);
      const published = [...scheduler.core.published()].map((id) => scheduler.core.publishedGroup(id));
      groups.forEach((group, g) => {
        const places = rows.flatMap((row) => [...row[g]]);
        expect(group.usedBlocks).toBe(new Set(places.filter((id) => id !== 0)).size);
        expect(group.nullPlaces).toBe(places.filter((id) => id === 0).length);
        expect(group.cachedBlocks).toBe(published.filter((of) => of === g).length);
        expect(group.droppedBlocks).toBeGreaterThanOrEqual(dropped[g]);
        if (group.type === 'full') expect(group.droppedBlocks).toBe(0);
        seen += group.nullPlaces;
      });
      dropped = groups.map(({ droppedBlocks }) => droppedBlocks);
      const used = groups.reduce((sum, { usedBlocks }) => sum + usedBlocks, 0);
      const sinks = kvGroups[0].type === 'sink' ? 2 : 0;
      expect(kvCacheUsage).toBeCloseTo(used / (59 - sinks));
    });
    expect(seen).toBeGreaterThan(100);
    expect(dropped.reduce((sum, count) => sum + count)).toBeGreaterThan(100);
    for (const { id } of scheduler.inspect().requests) scheduler.abort(id);
    scheduler.schedule();
    expect(scheduler.stats().kvCacheUsage).toBe(0);
    expect(scheduler.stats().groups.map(({ usedBlocks }) => usedBlocks)).toEqual(kvGroups.map(() => 0));
  });

  it('count each block that a request lets go, and name the groups', () => {
    const scheduler = schedulerOf({ kvGroups: LAYOUTS[0][1], maxNumBatchedTokens: 96 });
    scheduler.add({ id: 'a', prompt: new Int32Array(40), maxTokens: 30 });
    const plan = scheduler.schedule();
    scheduler.update(plan, { tokens: Int32Array.of(1), counts: Int32Array.of(1) });
    expect(scheduler.stats().groups.map(({ droppedBlocks }) => droppedBlocks)).toEqual([0, 0, 0]);
    const next = scheduler.schedule();
    // After 40 tokens, the next token sees the five before it, and the chunk that begins with it.
    // So 8 and 10 of 10 blocks are of no use.
    expect(scheduler.stats().groups).toMatchObject([
      { type: 'full', name: 'full', blockSize: 4, usedBlocks: 11, nullPlaces: 0, droppedBlocks: 0 },
      { type: 'sliding', name: 'sliding 6', usedBlocks: 3, nullPlaces: 8, droppedBlocks: 8 },
      { type: 'chunked', name: 'chunked 8', usedBlocks: 1, nullPlaces: 10, droppedBlocks: 10 },
    ]);
    expect(next.numRequests).toBe(1);
  });

  it('without groups there is one, with the counts of the pool', () => {
    const scheduler = schedulerOf({});
    live(scheduler, 60, () => {
      const { groups, freeBlocks, cachedBlocks } = scheduler.stats();
      const counts = { usedBlocks: 59 - freeBlocks, cachedBlocks, nullPlaces: 0, droppedBlocks: 0 };
      expect(groups).toEqual([{ type: 'full', name: 'full', blockSize: 4, ...counts }]);
    });
  });

  it('the groups of blocks are those of the rows, and of the hashes where no row has a block', () => {
    const scheduler = schedulerOf({ kvGroups: LAYOUTS[0][1] });
    expect(schedulerOf({}).inspect().blockGroups()).toBeNull();
    live(scheduler, 100, () => {
      const groups = scheduler.inspect().blockGroups()!;
      const expected = new Uint8Array(60).fill(255);
      for (const id of scheduler.core.published()) expected[id] = scheduler.core.publishedGroup(id);
      for (const { slot } of scheduler.inspect().requests)
        rowsOf(scheduler.core, slot).forEach((row, g) => {
          for (const id of row) if (id !== 0) expected[id] = g;
        });
      expect(groups).toEqual(expected);
    });
  });
});
