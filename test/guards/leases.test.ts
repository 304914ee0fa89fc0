// F31, F32: leases.
import { describe, expect, it } from 'vitest';
import { Anomalies } from '../../src/index.js';
import { Leases } from '../../src/transfer.js';
import { allBlocks, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';

/**
 * An engine that hands its KV over: a finished request keeps its blocks under a lease of 30 ms, for
 * a peer to read.
 */
class Producer extends RemoteDriver {
  readonly refusals = new Anomalies(false);
  readonly leases = new Leases(this.refusals);

  /** A request that has finished at `now`, its blocks leased. */
  lend(id: string, seed: number, now: number): number {
    const handle = this.add({ id, prompt: prompt(9, seed), maxTokens: 1 });
    this.scheduler.hold(handle, 'lease', 'peer');
    this.step();
    this.leases.grant(handle, now, 30);
    return handle;
  }

  /** A lease that is over gives its blocks back. */
  sweep(now: number): void {
    for (const handle of this.leases.expire(now)) this.scheduler.complete(handle, 'lease', 'peer');
    this.scheduler.verify();
  }
}

describe('F31 leases that are over stand behind one that was renewed', () => {
  // Pinned by: a heap by deadline, from which entries leave anywhere (LeaseHeap and renew, leases.ts).
  it('each gives its blocks back at its own time', () => {
    const driver = new Producer({}, { strict: true });
    const [first] = [0, 1, 2].map((i) => driver.lend(`r${i}`, i, i));
    const leased = (): number => (allBlocks(driver.scheduler) - driver.free) / 3;
    expect(leased()).toBe(3);
    expect(driver.leases.renew(first, 10, 100)).toBe(true);
    driver.sweep(30);
    expect(leased()).toBe(3);
    driver.sweep(31);
    expect(leased()).toBe(2);
    driver.sweep(32);
    expect(leased()).toBe(1);
    driver.sweep(109);
    expect(leased()).toBe(1);
    driver.sweep(110);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
    expect(driver.leases.size).toBe(0);
  });

  it('the next one to end is known, whichever was renewed', () => {
    const driver = new Producer({}, { strict: true });
    const [first, second] = [0, 1].map((i) => driver.lend(`r${i}`, i, i));
    expect(driver.leases.nextDeadline).toBe(30);
    driver.leases.renew(first, 20, 60);
    expect(driver.leases.nextDeadline).toBe(31);
    driver.leases.renew(second, 20, 90);
    expect(driver.leases.nextDeadline).toBe(80);
  });
});

describe('F32 a lease ends while its reader is still queued', () => {
  // Pinned by: a lease is over when its time is, whether it was swept or not (#living, leases.ts).
  // A refused reader has failed to load (applyFailed, load-failure.ts).
  for (const loadFailurePolicy of ['fail', 'recompute'] as const) {
    it(`${loadFailurePolicy}: who comes too late reads nothing, and computes or fails`, () => {
      const producer = new Producer({}, { numBlocks: 5, strict: true });
      const lent = producer.lend('r', 0, 0);
      const consumer = new RemoteDriver(
        { r: { ext: 8, async: true, oneshot: true } },
        { loadFailurePolicy, strict: true },
      );
      const r = consumer.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      // Its blocks are somebody else's by the time that the consumer reads.
      producer.sweep(30);
      const next = producer.add({ id: 'next', prompt: prompt(13, 1), maxTokens: 1 });
      producer.run();
      expect(producer.text(next)).toHaveLength(1);
      if (producer.leases.mayRead(lent, 31)) consumer.received(r);
      else consumer.say({ failedReceiving: [{ handle: r }], finishedReceiving: [{ handle: r }] });
      consumer.run();
      expect(producer.refusals.toObject()).toEqual({ 'expired-lease': 1 });
      if (loadFailurePolicy === 'fail') expect(consumer.ends.get(r)).toEqual(['error']);
      else expect(consumer.text(r)).toEqual(consumer.model.text(r, 2));
      expect(leftovers(consumer.scheduler)).toEqual([]);
      expect(leftovers(producer.scheduler)).toEqual([]);
    });
  }

  it('renewed in time it is read; over and not swept yet it is not', () => {
    const driver = new Producer({}, { strict: true });
    const lent = driver.lend('r', 0, 0);
    expect(driver.leases.renew(lent, 29, 30)).toBe(true);
    expect(driver.leases.mayRead(lent, 58)).toBe(true);
    expect(driver.leases.mayRead(lent, 59)).toBe(false);
    expect(driver.leases.renew(lent, 59, 30)).toBe(false);
    expect(driver.free).toBeLessThan(allBlocks(driver.scheduler));
    driver.sweep(59);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
