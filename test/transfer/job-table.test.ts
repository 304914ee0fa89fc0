import { describe, expect, it } from 'vitest';
import { Anomalies, type BlockPins, TransferJobs } from '../../src/index.js';
import { seeded } from '../core/bench-core.js';
import { ids } from './support.js';

class Pins implements BlockPins {
  readonly counts = new Map<number, number>();
  refuse = false;

  pin(blocks: Int32Array): void {
    if (this.refuse) throw new Error('nobody holds it');
    for (const block of blocks) this.counts.set(block, (this.counts.get(block) ?? 0) + 1);
  }

  unpin(blocks: Int32Array): void {
    for (const block of blocks) {
      const left = (this.counts.get(block) ?? 0) - 1;
      if (left < 0) throw new Error(`block ${block} has no pin`);
      if (left === 0) this.counts.delete(block);
      else this.counts.set(block, left);
    }
  }
}

describe('the jobs of a connector', () => {
  it('are known by number, by request and by block until they are over', () => {
    const jobs = new TransferJobs(new Anomalies(false));
    expect(jobs.add(5, { handle: 70, kind: 'load', blocks: ids(1, 2) })).toBe(true);
    expect(jobs.add(3, { handle: 70, kind: 'store', blocks: ids(2, 3), child: 1, rank: 2 })).toBe(true);
    expect(jobs.add(4, { handle: 80, kind: 'load', blocks: ids(9) })).toBe(true);
    expect(jobs.size).toBe(3);
    expect(jobs.get(3)).toMatchObject({ job: 3, handle: 70, kind: 'store', child: 1, rank: 2 });
    expect(jobs.of(70).map(({ job }) => job)).toEqual([5, 3]);
    expect([jobs.has(70), jobs.has(70, 'store'), jobs.has(80, 'store'), jobs.has(90)]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect([...jobs.touching(ids(2, 1, 7))]).toEqual([3, 5]);
    expect([...jobs.touching(ids(7))]).toEqual([]);
    expect(jobs.complete(5)).toMatchObject({ handle: 70, kind: 'load' });
    expect([jobs.has(70, 'load'), jobs.has(70), [...jobs.touching(ids(1, 2))]]).toEqual([false, true, [3]]);
    jobs.complete(3);
    expect([jobs.has(70), jobs.size, jobs.get(3)]).toEqual([false, 1, null]);
  });

  it('that are unknown or there already are skipped and counted', () => {
    const anomalies = new Anomalies(false);
    const jobs = new TransferJobs(anomalies);
    jobs.add(1, { handle: 7, kind: 'load', blocks: ids(1) });
    expect(jobs.add(1, { handle: 8, kind: 'store', blocks: ids(2) })).toBe(false);
    expect([jobs.has(8), [...jobs.touching(ids(2))], jobs.get(1)?.handle]).toEqual([false, [], 7]);
    expect([jobs.complete(1)?.job, jobs.complete(1), jobs.complete(2)]).toEqual([1, null, null]);
    expect(anomalies.toObject()).toEqual({ 'duplicate-job': 1, 'unknown-completion': 2 });
    // Its number may come again: a queue numbers jobs from 1 again, some time.
    expect(jobs.add(1, { handle: 8, kind: 'store', blocks: ids(2) })).toBe(true);
  });

  it('keep what their blocks were', () => {
    const jobs = new TransferJobs(new Anomalies(false));
    const blocks = ids(1, 2);
    jobs.add(1, { handle: 7, kind: 'load', blocks });
    blocks.fill(9);
    expect([...jobs.touching(ids(9))]).toEqual([]);
    jobs.complete(1);
    expect([...jobs.touching(ids(1, 2))]).toEqual([]);
  });

  it('pin their blocks until they are over, each job for itself', () => {
    const pins = new Pins();
    const jobs = new TransferJobs(new Anomalies(false), pins);
    jobs.add(1, { handle: 7, kind: 'store', blocks: ids(1, 2) });
    jobs.add(2, { handle: 8, kind: 'store', blocks: ids(2, 2) });
    expect(Object.fromEntries(pins.counts)).toEqual({ 1: 1, 2: 3 });
    expect(jobs.add(2, { handle: 8, kind: 'store', blocks: ids(5) })).toBe(false);
    jobs.complete(1);
    jobs.complete(1);
    expect(Object.fromEntries(pins.counts)).toEqual({ 2: 2 });
    pins.refuse = true;
    expect(() => jobs.add(3, { handle: 9, kind: 'store', blocks: ids(1) })).toThrow('nobody holds it');
    expect([jobs.size, jobs.has(9), [...jobs.touching(ids(1))]]).toEqual([1, false, []]);
    expect(jobs.clear().map(({ job }) => job)).toEqual([2]);
    expect([pins.counts.size, jobs.size, jobs.has(8)]).toEqual([0, 0, false]);
  });

  it('agree with a search of all of them over random lives', () => {
    const random = seeded(4);
    const jobs = new TransferJobs(new Anomalies(false), new Pins());
    const model = new Map<number, { handle: number; blocks: number[] }>();
    for (let i = 0; i < 3000; i++) {
      const job = 1 + random(30);
      if (random(2) === 0) {
        const blocks = Array.from({ length: random(5) }, () => random(12));
        const handle = 1 + random(6);
        expect(jobs.add(job, { handle, kind: 'store', blocks: Int32Array.from(blocks) })).toBe(
          !model.has(job),
        );
        if (!model.has(job)) model.set(job, { handle, blocks });
      } else {
        expect(jobs.complete(job) !== null).toBe(model.delete(job));
      }
      const [block, other, handle] = [random(12), random(12), 1 + random(6)];
      const touching = [...model].filter(
        ([, { blocks }]) => blocks.includes(block) || blocks.includes(other),
      );
      expect([...jobs.touching(ids(block, other))]).toEqual(
        touching.map(([number]) => number).sort((a, b) => a - b),
      );
      expect(jobs.has(handle)).toBe([...model.values()].some((entry) => entry.handle === handle));
    }
  });
});
