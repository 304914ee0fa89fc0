import { describe, expect, it } from 'vitest';
import { BlockArena, CompletionQueue, HostLane } from '../../src/index.js';
import { describeLane } from './lane-contract.js';
import { BLOCK_BYTES, drainAll, hostLanes, LaneBench, NUM_BLOCKS } from './support.js';

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
});
