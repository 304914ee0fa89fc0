// The contract of lanes, as a suite.
import { describe, expect, it } from 'vitest';
import { type Lane, Verdict } from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { BLOCK_BYTES, bytesOf, fill, ids, LaneBench, type LaneKind, NUM_BLOCKS } from './support.js';

/**
 * The promises of every lane (src/transfer/lane.ts), whatever copies. @param makeKind called in
 * each test
 */
export function describeLane(name: string, makeKind: () => LaneKind<Lane & Disposable>): void {
  describe(name, () => {
    it('copies the blocks that a job names, and nothing else', () => {
      using bench = new LaneBench(makeKind());
      const { lane, target } = bench;
      const job = lane.submit(ids(3, 4, 9), ids(5, 6, 1));
      lane.flush(ids(job));
      expect(bench.drain()).toEqual({ [job]: 'ok' });
      expect(bench.origins(0, 1, 2, 3, 4, 5, 6, 7)).toEqual([-1, 9, -1, -1, -1, 3, 4, -1]);
      expect([target.arrivals(1), target.arrivals(5), target.arrivals(0)]).toEqual([1, 1, 0]);
      expect(lane.counts()).toEqual({ pending: 0, waiting: 0, bytes: 3 * BLOCK_BYTES, copies: 2 });
    });

    it('copies runs that are consecutive on both sides as one', () => {
      using bench = new LaneBench(makeKind());
      const copies = (sources: Int32Array, targets: Int32Array) => {
        const before = bench.lane.counts().copies;
        bench.lane.flush(ids(bench.lane.submit(sources, targets)));
        return bench.lane.counts().copies - before;
      };
      expect(copies(ids(1, 2, 3, 4), ids(11, 12, 13, 14))).toBe(1);
      expect(copies(ids(1, 2, 3, 4), ids(11, 12, 14, 15))).toBe(2);
      expect(copies(ids(1, 2, 4, 5), ids(11, 12, 13, 14))).toBe(2);
      expect(copies(ids(4, 3), ids(4, 3))).toBe(2);
    });

    it('takes what the arrays hold when it is called', () => {
      using bench = new LaneBench(makeKind());
      const [sources, targets] = [ids(1), ids(2)];
      const job = bench.lane.submit(sources, targets, 0);
      sources[0] = 7;
      targets[0] = 8;
      bench.lane.settle(0);
      bench.lane.flush(ids(job));
      expect(bench.origins(2, 8)).toEqual([1, -1]);
    });

    it('keeps a job back until its step is settled, while others overtake it', () => {
      using bench = new LaneBench(makeKind());
      const { lane } = bench;
      const late = lane.submit(ids(1), ids(1), 5);
      const early = lane.submit(ids(2), ids(2), 4);
      const free = lane.submit(ids(3), ids(3));
      lane.flush(ids(free));
      lane.settle(3);
      expect(bench.drain()).toEqual({ [free]: 'ok' });
      expect(lane.counts()).toMatchObject({ pending: 2, waiting: 2 });
      expect(bench.origins(1, 2, 3)).toEqual([-1, -1, 3]);
      lane.settle(4);
      lane.flush(ids(early));
      lane.settle(0); // takes nothing back
      lane.flush(ids(lane.submit(ids(6), ids(6), 4)));
      expect(bench.origins(1, 2, 6)).toEqual([-1, 2, 6]);
      lane.settle(9);
      lane.flush(ids(late));
      expect(bench.origins(1)).toEqual([1]);
    });

    it('takes a job without blocks, which has its place in the order and touches nothing', () => {
      using bench = new LaneBench(makeKind());
      const { lane, target } = bench;
      const jobs = [
        lane.submit(ids(1), ids(1)),
        lane.submit(ids(), ids()),
        lane.submit(ids(), ids()),
        lane.submit(ids(2), ids(2)),
      ];
      lane.flush(ids(jobs[2]));
      expect(bench.origins(1)).toEqual([1]); // the one in front is over
      lane.flush(ids(jobs[3]));
      expect(bench.drain()).toEqual(Object.fromEntries(jobs.map((job) => [job, 'ok'])));
      expect(lane.counts()).toEqual({ pending: 0, waiting: 0, bytes: 2 * BLOCK_BYTES, copies: 2 });
      const filled = Array.from({ length: NUM_BLOCKS }, (_, block) => block).filter(
        (block) => target.arrivals(block) > 0,
      );
      expect(filled).toEqual([1, 2]);
    });

    it('keeps a job without blocks back until its step is settled, and cancels it as any other', () => {
      using bench = new LaneBench(makeKind());
      const { lane } = bench;
      const [behind, cancelled, fenced] = [4, 4, 9].map((step) => lane.submit(ids(), ids(), step));
      const free = lane.submit(ids(), ids());
      lane.flush(ids(free));
      expect(bench.drain()).toEqual({ [free]: 'ok' });
      expect(lane.counts()).toMatchObject({ pending: 3, waiting: 3 });
      expect(codeOf(() => lane.flush(ids(behind)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      expect([lane.cancel(cancelled), lane.cancel(cancelled)]).toEqual([true, false]);
      lane.settle(4);
      lane.flush(ids(behind));
      expect(bench.drain()).toEqual({ [behind]: 'ok', [cancelled]: 'cancelled' });
      lane.fence();
      expect(bench.drain()).toEqual({ [fenced]: 'cancelled' });
      expect(lane.counts()).toEqual({ pending: 0, waiting: 0, bytes: 0, copies: 0 });
    });

    it('has one job over before the next one begins', () => {
      using bench = new LaneBench(makeKind());
      const all = Int32Array.from({ length: NUM_BLOCKS }, (_, i) => i);
      let last = 0;
      for (let i = 0; i < 30; i++) last = bench.lane.submit(new Int32Array(NUM_BLOCKS).fill(i % 7), all);
      bench.lane.flush(ids(last));
      expect(new Set(bench.origins(...all))).toEqual(new Set([29 % 7]));
      expect(Object.keys(bench.drain())).toHaveLength(30);
    });

    it('cancels what has not begun', () => {
      using bench = new LaneBench(makeKind());
      const { lane } = bench;
      const job = lane.submit(ids(1), ids(1), 7);
      expect([lane.cancel(job), lane.cancel(job)]).toEqual([true, false]);
      expect(bench.drain()).toEqual({ [job]: 'cancelled' });
      lane.settle(7);
      lane.fence();
      expect(bench.origins(1)).toEqual([-1]);
      expect(lane.counts()).toMatchObject({ pending: 0, waiting: 0 });
    });

    it('flushes jobs that are queued behind others, and knows that others are over', () => {
      using bench = new LaneBench(makeKind());
      const { lane } = bench;
      const first = lane.submit(ids(1), ids(1));
      const second = lane.submit(ids(2), ids(2));
      lane.flush(ids(second, first, 12345));
      expect(bench.origins(1, 2)).toEqual([1, 2]);
      lane.flush(new Int32Array(0));
    });

    it('refuses a flush that could not end, and waits for nothing', () => {
      using bench = new LaneBench(makeKind());
      const { lane } = bench;
      const waits = lane.submit(ids(1), ids(1), 3);
      const runs = lane.submit(ids(2), ids(2));
      expect(codeOf(() => lane.flush(ids(runs, waits)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      lane.cancel(waits);
      lane.flush(ids(runs, waits));
      expect(bench.drain()).toEqual({ [waits]: 'cancelled', [runs]: 'ok' });
    });

    it('touches nothing after a fence, and works on', () => {
      using bench = new LaneBench(makeKind());
      const { lane } = bench;
      const all = Int32Array.from({ length: NUM_BLOCKS }, (_, i) => i);
      const jobs = Array.from({ length: 12 }, (_, i) => lane.submit(all, all, i % 3 === 0 ? 6 : -1));
      lane.fence();
      fill(bench.source, 5);
      fill(bench.target, 2);
      lane.settle(8);
      const ended = bench.drain();
      expect(Object.keys(ended).map(Number)).toEqual(jobs);
      expect(jobs.filter((_, i) => i % 3 === 0).map((job) => ended[job])).toEqual(Array(4).fill('cancelled'));
      expect(bench.origins(...all)).toEqual(Array(NUM_BLOCKS).fill(-1));
      const job = lane.submit(ids(0), ids(1));
      lane.flush(ids(job));
      expect(bench.target.readBlock(1)).toEqual(bytesOf(0, 5));
    });

    it('ends every job when it is disposed, and is refused afterwards', () => {
      const bench = new LaneBench(makeKind());
      const { lane, queue } = bench;
      const jobs = [
        lane.submit(ids(1), ids(1), 5),
        lane.submit(ids(2), ids(2)),
        lane.submit(ids(3), ids(3), 6),
      ];
      lane.dispose();
      lane.dispose();
      const ended = bench.drain();
      expect(Object.keys(ended).map(Number)).toEqual(jobs);
      expect([ended[jobs[0]], ended[jobs[2]]]).toEqual(['cancelled', 'cancelled']);
      expect(queue.inFlight).toBe(0);
      for (const call of [
        () => lane.submit(ids(1), ids(1)),
        () => lane.settle(1),
        () => lane.cancel(1),
        () => lane.flush(ids(1)),
        () => lane.fence(),
        () => lane.counts(),
      ]) {
        expect(codeOf(call)).toBe('ERR_BLOCKSTEP_DISPOSED');
      }
    });

    it('submits nothing when the queue is full, and goes on when it was drained', () => {
      using bench = new LaneBench(makeKind(), 2);
      const { lane, queue } = bench;
      lane.flush(ids(lane.submit(ids(1), ids(1)), lane.submit(ids(2), ids(2))));
      expect(codeOf(() => lane.submit(ids(3), ids(3)))).toBe('ERR_BLOCKSTEP_RING_FULL');
      expect(lane.counts()).toMatchObject({ pending: 0 });
      expect(Object.values(bench.drain())).toEqual(['ok', 'ok']);
      lane.flush(ids(lane.submit(ids(4), ids(4))));
      expect([bench.origins(3, 4), queue.inFlight]).toEqual([[-1, 4], 1]);
    });

    it('does not let anybody else complete its jobs', () => {
      using bench = new LaneBench(makeKind());
      const job = bench.lane.submit(ids(1), ids(1), 5);
      expect(bench.queue.post(job, Verdict.ok)).toBe(false);
      expect(bench.anomalies.toObject()).toEqual({ 'wrong-owner': 1 });
      expect(bench.drain()).toEqual({});
      bench.lane.cancel(job);
      expect(bench.drain()).toEqual({ [job]: 'cancelled' });
    });

    it('completes what a reset left behind, and it is dropped', () => {
      using bench = new LaneBench(makeKind());
      const { lane, queue } = bench;
      const old = lane.submit(ids(1), ids(1), 5);
      expect(queue.reset()).toBe(1);
      lane.settle(5);
      lane.flush(ids(old));
      expect(bench.drain()).toEqual({});
      expect(bench.anomalies.toObject()).toEqual({ 'after-reset': 1 });
      expect(bench.origins(1)).toEqual([1]);
    });

    it('goes on without the objects that it was made of', () => {
      const bench = new LaneBench(makeKind());
      const { lane, source, target, queue } = bench;
      const kind = makeKind();
      const witness = kind.makeSource({ numBlocks: source.numBlocks, bytesPerBlock: source.bytesPerBlock });
      const back = kind.makeLane(queue, target, witness);
      for (const object of [source, target]) object.dispose();
      lane.flush(ids(lane.submit(ids(1), ids(2))));
      back.flush(ids(back.submit(ids(2), ids(3))));
      expect(witness.readBlock(3)).toEqual(bytesOf(1, 1));
      lane.dispose();
      back.flush(ids(back.submit(ids(2), ids(4)))); // the target is also this one's
      expect(witness.readBlock(4)).toEqual(bytesOf(1, 1));
      back.dispose();
    });

    it('takes no job once its queue was disposed, where nobody could drain it, and ends what it has', () => {
      using bench = new LaneBench(makeKind());
      const { lane, queue } = bench;
      const waits = lane.submit(ids(1), ids(1), 5);
      queue.dispose();
      for (const blocks of [ids(2), ids()]) {
        expect(codeOf(() => lane.submit(blocks, blocks))).toBe('ERR_BLOCKSTEP_DISPOSED');
      }
      expect(lane.counts()).toEqual({ pending: 1, waiting: 1, bytes: 0, copies: 0 });
      lane.settle(5);
      lane.flush(ids(waits));
      expect([bench.origins(1, 2), lane.counts().pending]).toEqual([[1, -1], 0]);
      lane.fence();
    });

    it('shares a queue with lanes in other directions', () => {
      using bench = new LaneBench(makeKind());
      using back = makeKind().makeLane(bench.queue, bench.target, bench.source);
      expect([bench.lane.queue === bench.queue, back.queue === bench.queue]).toEqual([true, true]);
      const there = bench.lane.submit(ids(1), ids(10));
      bench.lane.flush(ids(there));
      const here = back.submit(ids(10), ids(20));
      expect([bench.lane.cancel(here), back.cancel(there)]).toEqual([false, false]);
      back.flush(ids(here));
      expect(bench.drain()).toEqual({ [there]: 'ok', [here]: 'ok' });
      expect(bench.source.readBlock(20)).toEqual(bytesOf(1, 1));
    });
  });
}
