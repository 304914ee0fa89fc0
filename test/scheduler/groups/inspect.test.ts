import { expect, it } from 'vitest';
import { Random } from '../../../src/base/random.js';
import { rowsOf } from '../../../src/core/rows.js';
import { Scheduler } from '../../../src/index.js';
import { BlockState } from '../../../src/scheduler/inspect/block-state.js';

it('the map of blocks, and who holds one, agree with the rows of all groups through random lives', () => {
  using scheduler = new Scheduler({
    numBlocks: 40,
    blockSize: 4,
    maxModelLen: 64,
    maxNumSeqs: 6,
    maxNumBatchedTokens: 24,
    deadlines: false,
    kvGroups: [
      { type: 'sink', sinkTokens: 8 },
      { type: 'sliding', window: 6 },
      { type: 'full', blockSize: 8 },
    ],
  });
  const random = new Random(4);
  for (let step = 0; step < 300; step++) {
    if (random.below(3) === 0) {
      const prompt = Int32Array.from({ length: 1 + random.below(40) }, (_, i) => i);
      scheduler.add({ id: `r${step}`, prompt, maxTokens: 1 + random.below(12) });
    }
    const plan = scheduler.schedule();
    check(scheduler);
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const total = counts.reduce((sum, count) => sum + count, 0);
    scheduler.update(plan, { tokens: new Int32Array(total).fill(9), counts });
    scheduler.verify();
  }
  expect(scheduler.stats().prefixCacheHits).toBeGreaterThan(0);
});

function check(scheduler: Scheduler): void {
  const { requests } = scheduler.inspect();
  const holders = new Map<number, Set<string>>();
  for (const { id, slot } of requests)
    for (const block of rowsOf(scheduler.core, slot).flatMap((row) => [...row]))
      if (block !== 0) holders.set(block, (holders.get(block) ?? new Set()).add(id));
  const free = new Set(scheduler.core.freeQueue());
  const published = new Set(scheduler.core.published());
  scheduler
    .inspect()
    .blockStates()
    .forEach((state, block) => {
      // The null block, and the two blocks of the sink.
      const isKept = block < 3;
      const unheld = published.has(block) ? BlockState.cached : BlockState.free;
      expect(state, `block ${block}`).toBe(
        isKept ? BlockState.reserved : free.has(block) ? unheld : BlockState.used,
      );
      const held = new Set(
        scheduler
          .inspect()
          .holdersOf(block)
          .map(({ id }) => id),
      );
      expect(held, `block ${block}`).toEqual(holders.get(block) ?? new Set());
    });
}
