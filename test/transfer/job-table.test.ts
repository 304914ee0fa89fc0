import { describe, expect, it } from 'vitest';
import type { BlockPins } from '../../src/connector.js';
import { Anomalies } from '../../src/index.js';
import { TransferJobs } from '../../src/transfer/job-table.js';
import { CompletionQueue } from '../../src/transfer.js';
import { seeded } from '../support/core-bench.js';
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
  const queue = new CompletionQueue({ capacity: 1 });
  const other = new CompletionQueue({ capacity: 1 });

  it('are known by number, by request and by block until they are over', () => {
    const jobs = new TransferJobs(new Anomalies(false));
    expect(jobs.add(queue, 5, { handle: 70, kind: 'load', blocks: ids(1, 2) })).toBe(true);
    expect(jobs.add(queue, 3, { handle: 70, kind: 'store', blocks: ids(2, 3), child: 1, rank: 2 })).toBe(
      true,
    );
    expect(jobs.add(queue, 4, { handle: 80, kind: 'load', blocks: ids(9) })).toBe(true);
    expect(jobs.size).toBe(3);
    expect(jobs.get(queue, 3)).toMatchObject({ job: 3, handle: 70, kind: 'store', child: 1, rank: 2 });
    expect(jobs.of(70).map(({ job }) => job)).toEqual([5, 3]);
    expect([jobs.has(70), jobs.has(70, 'store'), jobs.has(80, 'store'), jobs.has(90)]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect([...jobs.touching(queue, ids(2, 1, 7))]).toEqual([3, 5]);
    expect([...jobs.touching(queue, ids(7))]).toEqual([]);
    expect(jobs.complete(queue, 5)).toMatchObject({ handle: 70, kind: 'load' });
    expect([jobs.has(70, 'load'), jobs.has(70), [...jobs.touching(queue, ids(1, 2))]]).toEqual([
      false,
      true,
      [3],
    ]);
    jobs.complete(queue, 3);
    expect([jobs.has(70), jobs.size, jobs.get(queue, 3)]).toEqual([false, 1, null]);
  });

  it('that are unknown or there already are skipped and counted', () => {
    const anomalies = new Anomalies(false);
    const jobs = new TransferJobs(anomalies);
    jobs.add(queue, 1, { handle: 7, kind: 'load', blocks: ids(1) });
    expect(jobs.add(queue, 1, { handle: 8, kind: 'store', blocks: ids(2) })).toBe(false);
    expect([jobs.has(8), [...jobs.touching(queue, ids(2))], jobs.get(queue, 1)?.handle]).toEqual([
      false,
      [],
      7,
    ]);
    expect([jobs.complete(queue, 1)?.job, jobs.complete(queue, 1), jobs.complete(queue, 2)]).toEqual([
      1,
      null,
      null,
    ]);
    expect(anomalies.toObject()).toEqual({ 'duplicate-job': 1, 'unknown-completion': 2 });
    // Its number may come again: a queue numbers jobs from 1 again, some time.
    expect(jobs.add(queue, 1, { handle: 8, kind: 'store', blocks: ids(2) })).toBe(true);
  });

  it('keep what their blocks were', () => {
    const jobs = new TransferJobs(new Anomalies(false));
    const blocks = ids(1, 2);
    jobs.add(queue, 1, { handle: 7, kind: 'load', blocks });
    blocks.fill(9);
    expect([...jobs.touching(queue, ids(9))]).toEqual([]);
    jobs.complete(queue, 1);
    expect([...jobs.touching(queue, ids(1, 2))]).toEqual([]);
  });

  it('carry what the caller wants back when they are over', () => {
    const jobs = new TransferJobs<{ step: number }>(new Anomalies(false));
    const payload = { step: 4 };
    jobs.add(queue, 1, { handle: 7, kind: 'load', blocks: ids(1), payload });
    expect([jobs.get(queue, 1)?.payload, jobs.complete(queue, 1)?.payload]).toEqual([payload, payload]);
    // @ts-expect-error: a job of this table has a payload
    jobs.add(queue, 2, { handle: 7, kind: 'load', blocks: ids(1) });
  });

  it('pin their blocks until they are over, each job for itself', () => {
    const pins = new Pins();
    const jobs = new TransferJobs(new Anomalies(false), pins);
    jobs.add(queue, 1, { handle: 7, kind: 'store', blocks: ids(1, 2) });
    jobs.add(queue, 2, { handle: 8, kind: 'store', blocks: ids(2, 2) });
    expect(Object.fromEntries(pins.counts)).toEqual({ 1: 1, 2: 3 });
    expect(jobs.add(queue, 2, { handle: 8, kind: 'store', blocks: ids(5) })).toBe(false);
    jobs.complete(queue, 1);
    jobs.complete(queue, 1);
    expect(Object.fromEntries(pins.counts)).toEqual({ 2: 2 });
    pins.refuse = true;
    expect(() => jobs.add(queue, 3, { handle: 9, kind: 'store', blocks: ids(1) })).toThrow('nobody holds it');
    expect([jobs.size, jobs.has(9), [...jobs.touching(queue, ids(1))]]).toEqual([1, false, []]);
    expect(jobs.clear().map(({ job }) => job)).toEqual([2]);
    expect([pins.counts.size, jobs.size, jobs.has(8)]).toEqual([0, 0, false]);
  });

  it('of two queues have the same numbers and nothing else in common', () => {
    const anomalies = new Anomalies(false);
    const pins = new Pins();
    const jobs = new TransferJobs(anomalies, pins);
    expect(jobs.add(queue, 1, { handle: 7, kind: 'load', blocks: ids(1, 2) })).toBe(true);
    expect(jobs.add(other, 1, { handle: 7, kind: 'store', blocks: ids(2, 3) })).toBe(true);
    expect(jobs.add(other, 2, { handle: 8, kind: 'store', blocks: ids(1) })).toBe(true);
    expect(jobs.size).toBe(3);
    expect([jobs.get(queue, 1)?.kind, jobs.get(other, 1)?.kind, jobs.get(queue, 2)]).toEqual([
      'load',
      'store',
      null,
    ]);
    // A flush is of one lane, and a lane knows the numbers of one queue alone.
    expect([[...jobs.touching(queue, ids(1, 2))], [...jobs.touching(other, ids(1, 2))]]).toEqual([
      [1],
      [1, 2],
    ]);
    // What a request has left is what it has left anywhere.
    expect(jobs.of(7).map((job) => [job.queue === other, job.job, job.kind])).toEqual([
      [false, 1, 'load'],
      [true, 1, 'store'],
    ]);
    expect(jobs.complete(queue, 1)).toMatchObject({ handle: 7, kind: 'load' });
    expect([jobs.complete(queue, 1), jobs.complete(queue, 2)]).toEqual([null, null]);
    expect([jobs.has(7), jobs.has(7, 'load'), jobs.get(other, 1)?.handle]).toEqual([true, false, 7]);
    expect(Object.fromEntries(pins.counts)).toEqual({ 1: 1, 2: 1, 3: 1 });
    expect(anomalies.toObject()).toEqual({ 'unknown-completion': 2 });
  });

  it('of one queue are forgotten alone, as when it was reset', () => {
    const pins = new Pins();
    const jobs = new TransferJobs(new Anomalies(false), pins);
    for (const of of [queue, other]) jobs.add(of, 1, { handle: 7, kind: 'store', blocks: ids(4) });
    expect(jobs.clear(queue).map((job) => job.queue === queue)).toEqual([true]);
    expect([jobs.size, jobs.get(queue, 1), jobs.get(other, 1)?.job, pins.counts.get(4)]).toEqual([
      1,
      null,
      1,
      1,
    ]);
    expect([jobs.clear(queue), jobs.clear().length, jobs.size, pins.counts.size]).toEqual([[], 1, 0, 0]);
  });

  it('agree with a search of all of them over random lives', () => {
    const random = seeded(4);
    const jobs = new TransferJobs(new Anomalies(false), new Pins());
    const model = new Map<string, { queue: number; job: number; handle: number; blocks: number[] }>();
    const queues = [queue, other];
    for (let i = 0; i < 3000; i++) {
      const which = random(2);
      const job = 1 + random(15);
      const key = `${which} ${job}`;
      if (random(2) === 0) {
        const blocks = Array.from({ length: random(5) }, () => random(12));
        const handle = 1 + random(6);
        const input = { handle, kind: 'store' as const, blocks: Int32Array.from(blocks) };
        expect(jobs.add(queues[which], job, input)).toBe(!model.has(key));
        if (!model.has(key)) model.set(key, { queue: which, job, handle, blocks });
      } else {
        expect(jobs.complete(queues[which], job) !== null).toBe(model.delete(key));
      }
      const [block, second, handle] = [random(12), random(12), 1 + random(6)];
      const all = [...model.values()];
      const touching = all.filter(
        (one) => one.queue === which && (one.blocks.includes(block) || one.blocks.includes(second)),
      );
      expect([...jobs.touching(queues[which], ids(block, second))]).toEqual(
        touching.map((one) => one.job).sort((a, b) => a - b),
      );
      expect(jobs.has(handle)).toBe(all.some((one) => one.handle === handle));
      expect(jobs.size).toBe(model.size);
    }
  });
});
