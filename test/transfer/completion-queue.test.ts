// Every job is handed out once, with its verdict, in the order of begin.
import { describe, expect, it } from 'vitest';
import { Anomalies } from '../../src/index.js';
import { CompletionQueue, Verdict } from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { seeded } from '../support/core-bench.js';
import { drainAll } from './support.js';

describe('a completion queue', () => {
  it('numbers jobs from 1 and hands out each once, with its verdict', () => {
    using queue = new CompletionQueue({ capacity: 4 });
    expect([queue.begin(), queue.begin(), queue.begin()]).toEqual([1, 2, 3]);
    expect(queue.inFlight).toBe(3);
    expect(queue.post(3, Verdict.failed)).toBe(true);
    expect(queue.post(1, Verdict.ok)).toBe(true);
    expect(queue.inFlight).toBe(3);
    expect(drainAll(queue)).toEqual({ 1: 'ok', 3: 'failed' });
    expect(queue.inFlight).toBe(1);
    expect(drainAll(queue)).toEqual({});
    queue.post(2, Verdict.cancelled);
    expect(drainAll(queue)).toEqual({ 2: 'cancelled' });
  });

  it('hands jobs out in the order in which they were begun, whatever the order of their ends', () => {
    using queue = new CompletionQueue({ capacity: 8 });
    const jobs = Array.from({ length: 8 }, () => queue.begin());
    for (const job of [...jobs].reverse()) queue.post(job, Verdict.ok);
    const order: number[] = [];
    queue.drain((job) => order.push(job));
    expect(order).toEqual(jobs);
  });

  it('refuses a job when every slot is held, and loses nothing', () => {
    using queue = new CompletionQueue({ capacity: 2 });
    const jobs = [queue.begin(), queue.begin()];
    expect(codeOf(() => queue.begin())).toBe('ERR_BLOCKSTEP_RING_FULL');
    expect(queue.inFlight).toBe(2);
    for (const job of jobs) queue.post(job, Verdict.ok);
    // An ended job that was not drained holds its slot.
    expect(codeOf(() => queue.begin())).toBe('ERR_BLOCKSTEP_RING_FULL');
    expect(drainAll(queue)).toEqual({ 1: 'ok', 2: 'ok' });
    expect(queue.begin()).toBeGreaterThan(2);
  });

  it('is not held up by a slow job', () => {
    using queue = new CompletionQueue({ capacity: 4 });
    const slow = queue.begin();
    for (let i = 0; i < 100; i++) {
      const jobs = [queue.begin(), queue.begin(), queue.begin()];
      expect(new Set([slow, ...jobs]).size).toBe(4);
      for (const job of jobs) queue.post(job, Verdict.ok);
      expect(Object.keys(drainAll(queue))).toHaveLength(3);
    }
    queue.post(slow, Verdict.ok);
    expect(drainAll(queue)).toEqual({ [slow]: 'ok' });
  });

  it('skips and counts what comes twice, late, or of nothing', () => {
    using queue = new CompletionQueue({ capacity: 1 });
    const job = queue.begin();
    expect(queue.post(job, Verdict.ok)).toBe(true);
    expect(queue.post(job, Verdict.failed)).toBe(false);
    expect(drainAll(queue)).toEqual({ [job]: 'ok' });
    expect(queue.post(job, Verdict.failed)).toBe(false);
    const next = queue.begin(); // in the same slot
    expect(queue.post(job, Verdict.failed)).toBe(false);
    expect(drainAll(queue)).toEqual({});
    expect(queue.post(next + 1, Verdict.ok)).toBe(false);
    expect(queue.post(2 ** 31 - 1, Verdict.ok)).toBe(false);
    expect(queue.post(next, Verdict.cancelled)).toBe(true);
    expect(drainAll(queue)).toEqual({ [next]: 'cancelled' });
    expect(queue.counts()).toEqual({ inFlight: 0, abandoned: 0, late: 3 });
    expect(queue.anomalies.toObject()).toEqual({ 'duplicate-completion': 3, 'unknown-completion': 2 });
  });

  it('throws nothing by itself of what it counts; who shares the counter in strict mode does', () => {
    const anomalies = new Anomalies(true);
    using queue = new CompletionQueue({ anomalies });
    expect(queue.post(7, Verdict.ok)).toBe(false);
    expect(codeOf(() => anomalies.throwFirst())).toBe('ERR_BLOCKSTEP_ANOMALY');
  });

  it('drops what was begun before a reset, and frees its slots when it ends', () => {
    using queue = new CompletionQueue({ capacity: 3 });
    const [ended, running] = [queue.begin(), queue.begin()];
    queue.post(ended, Verdict.ok);
    expect(queue.reset()).toBe(2);
    expect(queue.counts()).toEqual({ inFlight: 0, abandoned: 2, late: 0 });
    const fresh = queue.begin();
    expect(codeOf(() => queue.begin())).toBe('ERR_BLOCKSTEP_RING_FULL');
    expect(drainAll(queue)).toEqual({});
    expect(queue.anomalies.toObject()).toEqual({ 'after-reset': 1 });
    expect(queue.counts()).toEqual({ inFlight: 1, abandoned: 1, late: 0 });
    queue.post(fresh, Verdict.ok);
    queue.post(running, Verdict.ok);
    expect(drainAll(queue)).toEqual({ [fresh]: 'ok' });
    expect(queue.anomalies.toObject()).toEqual({ 'after-reset': 2 });
    expect(queue.counts()).toEqual({ inFlight: 0, abandoned: 0, late: 0 });
    // A second reset counts nobody twice.
    queue.begin();
    expect([queue.reset(), queue.reset()]).toEqual([1, 0]);
  });

  it('hands out the rest with the next drain when a visitor throws', () => {
    using queue = new CompletionQueue({ capacity: 4 });
    for (let i = 0; i < 4; i++) queue.post(queue.begin(), Verdict.ok);
    const mine = new Error('mine');
    const seen: number[] = [];
    const visit = (job: number) => {
      seen.push(job);
      if (job === 2) throw mine;
    };
    expect(() => queue.drain(visit)).toThrow(mine);
    expect([seen, queue.inFlight]).toEqual([[1, 2], 2]);
    const later = queue.begin();
    queue.post(later, Verdict.ok);
    expect(queue.drain(visit)).toBe(3);
    expect(seen).toEqual([1, 2, 3, 4, later]);
  });

  it('drops what a visitor that threw left behind when it is reset', () => {
    using queue = new CompletionQueue({ capacity: 4 });
    for (let i = 0; i < 4; i++) queue.post(queue.begin(), Verdict.ok);
    const stop = () => {
      throw new Error('stop');
    };
    expect(() => queue.drain(stop)).toThrow('stop');
    expect(queue.reset()).toBe(3);
    expect(drainAll(queue)).toEqual({});
    expect(queue.anomalies.toObject()).toEqual({ 'after-reset': 3 });
  });

  it('may be drained, reset and disposed by a visitor', () => {
    const queue = new CompletionQueue({ capacity: 6 });
    for (let i = 0; i < 6; i++) queue.post(queue.begin(), Verdict.ok);
    const seen: number[] = [];
    const outer = queue.drain((job) => {
      seen.push(job);
      if (job === 2) queue.drain((inner) => seen.push(-inner) > 3 && queue.reset());
    });
    expect([outer, seen]).toEqual([2, [1, 2, -3, -4]]);
    for (let i = 0; i < 3; i++) queue.post(queue.begin(), Verdict.ok);
    expect(queue.drain(() => queue.dispose())).toBe(1);
    expect(codeOf(() => queue.drain(() => {}))).toBe('ERR_BLOCKSTEP_DISPOSED');
  });

  it('agrees with a model over random lives', () => {
    const random = seeded(17);
    for (let round = 0; round < 40; round++) {
      const capacity = 1 + random(7);
      using queue = new CompletionQueue({ capacity });
      const held = new Map<number, { posted: number; old: boolean }>();
      let afterReset = 0;
      for (let i = 0; i < 150; i++) {
        const all = [...held.keys()];
        const job = all[random(Math.max(1, all.length))];
        switch (random(4)) {
          case 0:
            if (held.size === capacity) expect(codeOf(() => queue.begin())).toBe('ERR_BLOCKSTEP_RING_FULL');
            else held.set(queue.begin(), { posted: 0, old: false });
            break;
          case 1:
            if (job !== undefined) {
              const state = held.get(job)!;
              const verdict = (1 + random(3)) as Verdict;
              expect(queue.post(job, verdict)).toBe(state.posted === 0);
              if (state.posted === 0) state.posted = verdict;
            }
            break;
          case 2: {
            const expected = new Map<number, number>();
            for (const [one, { posted, old }] of held) {
              if (posted === 0) continue;
              if (old) afterReset++;
              else expected.set(one, posted);
              held.delete(one);
            }
            const found = new Map<number, number>();
            queue.drain((one, verdict) => found.set(one, verdict));
            expect(found).toEqual(expected);
            break;
          }
          default:
            if (random(5) > 0) break;
            queue.reset();
            for (const state of held.values()) state.old = true;
        }
        const living = [...held.values()].filter(({ old }) => !old).length;
        expect(queue.counts()).toMatchObject({ inFlight: living, abandoned: held.size - living });
      }
      expect(queue.anomalies.toObject()['after-reset'] ?? 0).toBe(afterReset);
    }
  });
});
