// Host lanes keep the contract of lanes.
import { describe, expect, it } from 'vitest';
import { BlockArena, CompletionQueue, HostLane } from '../../src/transfer.js';
import { describeLane } from './lane-contract.js';
import { BLOCK_BYTES, drainAll, hostLanes, ids, LaneBench, NUM_BLOCKS } from './support.js';

describeLane('a host lane', () => hostLanes());
describeLane('a host lane of three threads', () => hostLanes({ threads: 3, pieceBytes: 4 * BLOCK_BYTES }));

describe('a host lane', () => {
  it.each([1, 2, 4])('completes a job of many pieces once, with %i threads', (threads) => {
    using bench = new LaneBench(hostLanes({ threads, pieceBytes: 1 }));
    const all = Int32Array.from({ length: NUM_BLOCKS }, (_, i) => i);
    const jobs = Array.from({ length: 20 }, () => bench.lane.submit(all, all.slice().reverse()));
    bench.lane.flush(Int32Array.from(jobs));
    expect(bench.drain()).toEqual(Object.fromEntries(jobs.map((job) => [job, 'ok'])));
    expect(bench.origins(...all)).toEqual([...all].reverse());
    expect(bench.lane.counts().copies).toBe(20 * NUM_BLOCKS);
  });

  // Stops of a job that has begun are tested with copies that can be held up:
  // native/test/transfer/lane_test.cc.
  it.each([
    ['before it begins', 'cancelled', 0],
    ['when it is over', 'ok', 64],
    ['while it is copied', null, null],
  ] as const)(
    'says of a job that is cancelled %s what became of it, when nothing writes any more',
    (when, ...known) => {
      const shape = { numBlocks: 64, bytesPerBlock: 2 ** 18 };
      using queue = new CompletionQueue();
      using source = BlockArena.allocate(shape);
      using target = BlockArena.allocate(shape);
      using lane = new HostLane(queue, source, target, { threads: 2 });
      const all = Int32Array.from({ length: 64 }, (_, i) => i);
      new Uint8Array(source.buffer).fill(1);
      for (let round = 0; round < 8; round++) {
        const bytes = new Uint8Array(target.buffer).fill(0);
        const came = target.arrivals(0);
        const job = lane.submit(all, all, when === 'before it begins' ? round : -1);
        if (when === 'when it is over') lane.flush(ids(job));
        if (when === 'while it is copied') while (target.arrivals(0) === came);
        const cancelled = lane.cancel(job);
        lane.settle(round);
        let ended = {};
        while (Object.keys(ended).length === 0) ended = drainAll(queue);
        const written = Array.from(all, (block) => bytes[block * shape.bytesPerBlock]);
        const count = written.filter((byte) => byte === 1).length;
        // While it is copied nobody knows how much of it there will be; all of it, and it is ok.
        const [verdict, numWritten] = known[0] === null ? [count === 64 ? 'ok' : 'cancelled', count] : known;
        expect([ended, count]).toEqual([{ [job]: verdict }, numWritten]);
        if (verdict === 'cancelled') expect(cancelled).toBe(true);
        if (when === 'when it is over') expect(cancelled).toBe(false);
        // A block is whole or untouched, and stays so.
        for (const [block, byte] of written.entries()) {
          const first = block * shape.bytesPerBlock;
          expect([bytes[first + 1000], bytes[first + shape.bytesPerBlock - 1]]).toEqual([byte, byte]);
        }
        lane.fence();
        expect(Array.from(all, (block) => bytes[block * shape.bytesPerBlock])).toEqual(written);
      }
    },
  );
});
