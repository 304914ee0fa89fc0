import { describe, expect, it } from 'vitest';
import { BlockArena, CompletionQueue, HostLane, type Lane, Verdict } from '../../src/index.js';
import { codeOf } from '../misuse/bench.js';
import { BLOCK_BYTES, bytesOf, drainAll, fill, ids, LaneBench, NUM_BLOCKS } from './support.js';

describe('a host lane', () => {
  it('copies the blocks that a job names, and nothing else', () => {
    using bench = new LaneBench();
    const { lane, target } = bench;
    const job = lane.submit(ids(3, 4, 9), ids(5, 6, 1));
    lane.flush(ids(job));
    expect(bench.drain()).toEqual({ [job]: 'ok' });
    expect(bench.origins(0, 1, 2, 3, 4, 5, 6, 7)).toEqual([-1, 9, -1, -1, -1, 3, 4, -1]);
    expect([target.arrivals(1), target.arrivals(5), target.arrivals(0)]).toEqual([1, 1, 0]);
    expect(lane.counts()).toEqual({ pending: 0, waiting: 0, bytes: 3 * BLOCK_BYTES, copies: 2 });
  });

  it.each([1, 2, 4])('completes a job of many pieces once, with %i threads', (threads) => {
    using bench = new LaneBench({ threads, pieceBytes: 1 });
    const all = Int32Array.from({ length: NUM_BLOCKS }, (_, i) => i);
    const jobs = Array.from({ length: 20 }, () => bench.lane.submit(all, all.slice().reverse()));
    bench.lane.flush(Int32Array.from(jobs));
    expect(bench.drain()).toEqual(Object.fromEntries(jobs.map((job) => [job, 'ok'])));
    expect(bench.origins(...all)).toEqual([...all].reverse());
    expect(bench.lane.counts().copies).toBe(20 * NUM_BLOCKS);
  });

  it('copies runs that are consecutive on both sides as one', () => {
    using bench = new LaneBench();
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
    using bench = new LaneBench();
    const [sources, targets] = [ids(1), ids(2)];
    const job = bench.lane.submit(sources, targets, 0);
    sources[0] = 7;
    targets[0] = 8;
    bench.lane.settle(0);
    bench.lane.flush(ids(job));
    expect(bench.origins(2, 8)).toEqual([1, -1]);
  });

  it('keeps a job back until its step is settled, while others overtake it', () => {
    using bench = new LaneBench();
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

  it('has one job over before the next one begins', () => {
    using bench = new LaneBench({ threads: 3, pieceBytes: 1 });
    const all = Int32Array.from({ length: NUM_BLOCKS }, (_, i) => i);
    let last = 0;
    for (let i = 0; i < 30; i++) last = bench.lane.submit(new Int32Array(NUM_BLOCKS).fill(i % 7), all);
    bench.lane.flush(ids(last));
    expect(new Set(bench.origins(...all))).toEqual(new Set([29 % 7]));
    expect(Object.keys(bench.drain())).toHaveLength(30);
  });

  it('cancels what has not begun', () => {
    using bench = new LaneBench();
    const { lane } = bench;
    const job = lane.submit(ids(1), ids(1), 7);
    expect([lane.cancel(job), lane.cancel(job)]).toEqual([true, false]);
    expect(bench.drain()).toEqual({ [job]: 'cancelled' });
    lane.settle(7);
    lane.fence();
    expect(bench.origins(1)).toEqual([-1]);
    expect(lane.counts()).toMatchObject({ pending: 0, waiting: 0 });
  });

  it('stops a job between two pieces, and says so only when nothing writes any more', () => {
    const MEGABYTE = 2 ** 20;
    const shape = { numBlocks: 64, bytesPerBlock: MEGABYTE };
    using queue = new CompletionQueue();
    using source = BlockArena.allocate(shape);
    using target = BlockArena.allocate(shape);
    using lane = new HostLane(queue, source, target, { threads: 2 });
    const all = Int32Array.from({ length: 64 }, (_, i) => i);
    new Uint8Array(source.buffer).fill(1);
    let cut = 0;
    for (let round = 0; round < 20; round++) {
      const bytes = new Uint8Array(target.buffer).fill(0);
      const came = target.arrivals(0);
      const job = lane.submit(all, all);
      // In some rounds before it begins, in most when its first blocks have come.
      while (round % 5 !== 0 && target.arrivals(0) === came);
      lane.cancel(job);
      let ended = {};
      while (Object.keys(ended).length === 0) ended = drainAll(queue);
      const written = Array.from(all, (block) => bytes[block * MEGABYTE]);
      const count = written.filter((byte) => byte === 1).length;
      expect(ended).toEqual({ [job]: count === 64 ? 'ok' : 'cancelled' });
      // A block is whole or untouched, and stays so.
      for (const [block, byte] of written.entries()) {
        expect([bytes[block * MEGABYTE + 1000], bytes[(block + 1) * MEGABYTE - 1]]).toEqual([byte, byte]);
      }
      if (count > 0 && count < 64) cut++;
      lane.fence();
      expect(Array.from(all, (block) => bytes[block * MEGABYTE])).toEqual(written);
    }
    expect(cut).toBeGreaterThan(0);
  });

  it('flushes jobs that are queued behind others, and knows that others are over', () => {
    using bench = new LaneBench();
    const { lane } = bench;
    const first = lane.submit(ids(1), ids(1));
    const second = lane.submit(ids(2), ids(2));
    lane.flush(ids(second, first, 12345));
    expect(bench.origins(1, 2)).toEqual([1, 2]);
    lane.flush(new Int32Array(0));
  });

  it('refuses a flush that could not end, and waits for nothing', () => {
    using bench = new LaneBench();
    const { lane } = bench;
    const waits = lane.submit(ids(1), ids(1), 3);
    const runs = lane.submit(ids(2), ids(2));
    expect(codeOf(() => lane.flush(ids(runs, waits)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    lane.cancel(waits);
    lane.flush(ids(runs, waits));
    expect(bench.drain()).toEqual({ [waits]: 'cancelled', [runs]: 'ok' });
  });

  it('touches nothing after a fence, and works on', () => {
    using bench = new LaneBench({ threads: 2, pieceBytes: 1 });
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
    expect(bench.target.block(1)).toEqual(bytesOf(0, 5));
  });

  it('ends every job when it is disposed, and is refused afterwards', () => {
    const bench = new LaneBench();
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
    using bench = new LaneBench({}, 2);
    const { lane, queue } = bench;
    lane.flush(ids(lane.submit(ids(1), ids(1)), lane.submit(ids(2), ids(2))));
    expect(codeOf(() => lane.submit(ids(3), ids(3)))).toBe('ERR_BLOCKSTEP_RING_FULL');
    expect(lane.counts()).toMatchObject({ pending: 0 });
    expect(Object.values(bench.drain())).toEqual(['ok', 'ok']);
    lane.flush(ids(lane.submit(ids(4), ids(4))));
    expect([bench.origins(3, 4), queue.inFlight]).toEqual([[-1, 4], 1]);
  });

  it('does not let anybody else complete its jobs', () => {
    using bench = new LaneBench();
    const job = bench.lane.submit(ids(1), ids(1), 5);
    expect(bench.queue.post(job, Verdict.ok)).toBe(false);
    expect(bench.anomalies.toObject()).toEqual({ 'wrong-owner': 1 });
    expect(bench.drain()).toEqual({});
    bench.lane.cancel(job);
    expect(bench.drain()).toEqual({ [job]: 'cancelled' });
  });

  it('completes what a reset left behind, and it is dropped', () => {
    using bench = new LaneBench();
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
    const bench = new LaneBench();
    const { lane, source, target, queue } = bench;
    const bytes = new Uint8Array(target.buffer);
    source.dispose();
    target.dispose();
    queue.dispose();
    lane.flush(ids(lane.submit(ids(1), ids(2))));
    expect(bytes.slice(2 * BLOCK_BYTES, 3 * BLOCK_BYTES)).toEqual(bytesOf(1, 1));
    lane.dispose();
    expect(bytes[2 * BLOCK_BYTES]).toBe(bytesOf(1, 1)[0]);
  });

  it('shares a queue with lanes in other directions', () => {
    using bench = new LaneBench();
    using back: Lane & Disposable = new HostLane(bench.queue, bench.target, bench.source);
    const there = bench.lane.submit(ids(1), ids(10));
    bench.lane.flush(ids(there));
    const here = back.submit(ids(10), ids(20));
    expect([bench.lane.cancel(here), back.cancel(there)]).toEqual([false, false]);
    back.flush(ids(here));
    expect(bench.drain()).toEqual({ [there]: 'ok', [here]: 'ok' });
    expect(bench.source.block(20)).toEqual(bytesOf(1, 1));
  });
});
