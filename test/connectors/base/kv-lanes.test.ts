// The lanes of a rank: ends, cancelled and refused jobs.
import { describe, expect, it } from 'vitest';
import { KvLanes } from '../../../src/connectors/base/kv-lanes.js';
import { checkMemory } from '../../../src/connectors/base/kv-memory.js';
import { ReferenceExecutor } from '../../../src/index.js';
import { BlockArena, HostLane, Verdict } from '../../../src/transfer.js';
import { codeOf } from '../../misuse/bench.js';

const SHAPE = { numBlocks: 4, bytesPerBlock: 64 };
const ids = (...blocks: number[]): Int32Array => Int32Array.from(blocks);

/** Drains until so many jobs have ended. */
async function drained(lanes: KvLanes): Promise<void> {
  while (lanes.numPending > 0) {
    lanes.drain();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('the lanes of a rank', () => {
  it('copy both ways, and tell the memory of a load before its end', async () => {
    const [kv, tier] = [BlockArena.allocate(SHAPE), BlockArena.allocate(SHAPE)];
    const told: unknown[] = [];
    const lanes = new KvLanes({ kv, adopt: (handle, blocks) => told.push([handle, ...blocks]) }, tier);
    kv.block(1).fill(7);
    lanes.store(ids(1), ids(3), (verdict) => told.push(verdict));
    await drained(lanes);
    expect([tier.block(3)[0], told.splice(0)]).toEqual([7, [Verdict.ok]]);
    lanes.load(55, ids(3), ids(2), 4, (verdict) => told.push(verdict));
    lanes.drain();
    expect([kv.block(2)[0], told]).toEqual([0, []]); // step 4 may still write the block
    lanes.settle(4);
    await drained(lanes);
    expect([kv.block(2)[0], told]).toEqual([7, [[55, 2], Verdict.ok]]);
    lanes.dispose();
  });

  it('tell the memory nothing of a load that was cancelled', async () => {
    const [kv, tier] = [BlockArena.allocate(SHAPE), BlockArena.allocate(SHAPE)];
    const told: unknown[] = [];
    const lanes = new KvLanes({ kv, adopt: () => told.push('adopted') }, tier);
    const job = lanes.load(5, ids(0), ids(1), 9, (verdict) => told.push(verdict));
    lanes.cancel(job);
    lanes.cancel(job + 1); // of nobody
    await drained(lanes);
    expect(told).toEqual([Verdict.cancelled]);
    lanes.load(5, ids(0), ids(1), 9, (verdict) => told.push(verdict));
    lanes.fence();
    await drained(lanes);
    expect(told).toEqual([Verdict.cancelled, Verdict.cancelled]);
    lanes.load(5, ids(0), ids(1), 9, (verdict) => told.push(verdict));
    lanes.dispose();
    lanes.dispose();
    expect([lanes.numPending, told.length]).toEqual([0, 2]);
  });

  it('fail what too many jobs under way leave no room for', async () => {
    const [kv, tier] = [BlockArena.allocate(SHAPE), BlockArena.allocate(SHAPE)];
    const lanes = new KvLanes({ kv }, tier);
    const verdicts: Verdict[] = [];
    const { capacity } = lanes.queue;
    for (let i = 0; i < capacity + 2; i++)
      lanes.load(1, ids(0), ids(1), 9, (verdict) => verdicts.push(verdict));
    expect(lanes.numPending).toBe(capacity + 2);
    lanes.drain();
    expect(verdicts).toEqual([Verdict.failed, Verdict.failed]);
    lanes.settle(9);
    await drained(lanes);
    expect(verdicts.filter((verdict) => verdict === Verdict.ok).length).toBe(capacity);
    lanes.dispose();
  });

  it('throw for what the caller got wrong', () => {
    const [kv, tier] = [BlockArena.allocate(SHAPE), BlockArena.allocate(SHAPE)];
    const lanes = new KvLanes({ kv }, tier);
    expect(codeOf(() => lanes.store(ids(4), ids(0), () => {}))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(lanes.numPending).toBe(0);
    lanes.dispose();
  });

  it('are those that the caller makes', () => {
    const [kv, tier] = [BlockArena.allocate(SHAPE), BlockArena.allocate(SHAPE)];
    const made: unknown[] = [];
    const lanes = new KvLanes({ kv }, tier, (queue, source, target) => {
      made.push([source === kv, target === kv]);
      return new HostLane(queue, source, target, { threads: 2 });
    });
    expect(made).toEqual([
      [false, true],
      [true, false],
    ]);
    lanes.dispose();
  });
});

describe('the KV memory of a rank', () => {
  it('is that of an executor, or anything with an arena', () => {
    using executor = new ReferenceExecutor({ numBlocks: 4, blockSize: 2, maxNumSeqs: 1, maxModelLen: 4 });
    expect(checkMemory(executor)).toBe(executor);
    const memory = { kv: BlockArena.allocate(SHAPE) };
    expect(checkMemory(memory)).toBe(memory);
    for (const wrong of [null, 3, {}, { kv: {} }, { ...memory, adopt: 3 }])
      expect(codeOf(() => checkMemory(wrong))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });
});
