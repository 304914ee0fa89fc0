import { describe, expect, it } from 'vitest';
import { Anomalies } from '../../src/index.js';
import { TransferGroup } from '../../src/transfer/transfer-group.js';
import { worseVerdict } from '../../src/transfer/verdict.js';
import { BlockArena, CompletionQueue, HostLane, Verdict } from '../../src/transfer.js';
import { codeOf } from '../misuse/bench.js';
import { hostLanes, ids, LaneBench } from './support.js';

const { ok, failed, cancelled } = Verdict;

const queue = new CompletionQueue({ capacity: 1 });

describe('a transfer of several parts', () => {
  it.each([
    [[ok, ok, ok], ok],
    [[ok, failed, ok], failed],
    [[cancelled, ok, ok], cancelled],
    [[cancelled, failed, ok], failed],
    [[failed, cancelled, cancelled], failed],
    [[cancelled, cancelled, cancelled], cancelled],
  ] as const)('is over once, when all parts are: %j', (verdicts, expected) => {
    for (const order of [
      [0, 1, 2],
      [2, 1, 0],
      [1, 0, 2],
    ]) {
      const group = new TransferGroup(new Anomalies(false));
      for (const job of [11, 12, 13]) group.add(queue, job);
      expect(group.seal()).toBe(null);
      const ends = order.map((part) => group.complete(queue, 11 + part, verdicts[part]));
      expect(ends).toEqual([null, null, expected]);
      expect([group.isOver, group.numPending, [...group.pending(queue)], group.numParts]).toEqual([
        true,
        0,
        [],
        3,
      ]);
    }
  });

  it('is not over before it was sealed', () => {
    const group = new TransferGroup(new Anomalies(false));
    group.add(queue, 1);
    expect(group.complete(queue, 1, failed)).toBe(null);
    group.add(queue, 2);
    expect(group.complete(queue, 2, ok)).toBe(null);
    expect(group.isOver).toBe(false);
    expect(group.seal()).toBe(failed);
    expect(group.seal()).toBe(null);
    expect(codeOf(() => group.add(queue, 3))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('without parts is over when it is sealed', () => {
    expect(new TransferGroup(new Anomalies(false)).seal()).toBe(ok);
  });

  it('skips and counts what ends twice or is no part of it', () => {
    const anomalies = new Anomalies(false);
    const group = new TransferGroup(anomalies);
    group.add(queue, 1);
    group.add(queue, 2);
    group.seal();
    expect([
      group.complete(queue, 1, ok),
      group.complete(queue, 1, ok),
      group.complete(queue, 9, ok),
    ]).toEqual([null, null, null]);
    expect(group.isOver).toBe(false);
    expect(group.complete(queue, 2, ok)).toBe(ok);
    expect(group.complete(queue, 2, failed)).toBe(null);
    expect(anomalies.toObject()).toEqual({ 'unknown-completion': 3 });
  });

  it('goes over several lanes', () => {
    using bench = new LaneBench(hostLanes());
    using second = new HostLane(bench.queue, bench.source, bench.target);
    const group = new TransferGroup(bench.anomalies);
    const jobs = [
      group.submit(bench.lane, ids(1, 2), ids(1, 2)),
      group.submit(second, ids(3), ids(3), 4),
      group.submit(second, ids(4), ids(4)),
    ];
    group.seal();
    bench.lane.flush(ids(jobs[0]));
    second.flush(ids(jobs[2]));
    const ends: unknown[] = [];
    bench.queue.drain((job, verdict) => ends.push(group.complete(bench.queue, job, verdict)));
    expect([ends, [...group.pending(bench.queue)]]).toEqual([[null, null], [jobs[1]]]);
    second.settle(4);
    second.flush(ids(jobs[1]));
    bench.queue.drain((job, verdict) => ends.push(group.complete(bench.queue, job, verdict)));
    expect(ends).toEqual([null, null, ok]);
    expect(bench.origins(1, 2, 3, 4)).toEqual([1, 2, 3, 4]);
  });

  it('that a lane refuses a part of cancels the others and fails', () => {
    using bench = new LaneBench(hostLanes(), 2);
    const group = new TransferGroup(bench.anomalies);
    group.submit(bench.lane, ids(1), ids(1), 5);
    group.submit(bench.lane, ids(2), ids(2), 5);
    expect(codeOf(() => group.submit(bench.lane, ids(3), ids(3)))).toBe('ERR_BLOCKSTEP_RING_FULL');
    expect(group.seal()).toBe(null);
    const ends: unknown[] = [];
    bench.queue.drain((job, verdict) => ends.push([verdict, group.complete(bench.queue, job, verdict)]));
    expect(ends).toEqual([
      [cancelled, null],
      [cancelled, failed],
    ]);
    expect(bench.origins(1, 2, 3)).toEqual([-1, -1, -1]);
  });

  it('cancels the parts that it submitted', () => {
    using bench = new LaneBench(hostLanes());
    const group = new TransferGroup(bench.anomalies);
    const running = group.submit(bench.lane, ids(1), ids(1));
    group.submit(bench.lane, ids(2), ids(2), 5);
    group.add(bench.queue, bench.queue.begin());
    bench.lane.flush(ids(running));
    expect(group.cancel()).toBe(1);
    expect(Object.values(bench.drain())).toEqual(['ok', 'cancelled']);
  });

  it('on two queues is over when the parts on both are, though their numbers are the same', () => {
    using bench = new LaneBench(hostLanes());
    using queue = new CompletionQueue();
    using target = BlockArena.allocate({ numBlocks: 24, bytesPerBlock: bench.source.bytesPerBlock });
    using lane = new HostLane(queue, bench.source, target);
    const group = new TransferGroup(bench.anomalies);
    const [here, there] = [group.submit(bench.lane, ids(1), ids(1)), group.submit(lane, ids(2), ids(2), 5)];
    expect([here, there, group.numParts, group.numPending]).toEqual([1, 1, 2, 2]);
    expect([[...group.pending(bench.queue)], [...group.pending(queue)]]).toEqual([[1], [1]]);
    group.seal();
    bench.lane.flush(group.pending(bench.queue));
    const ends: unknown[] = [];
    bench.queue.drain((job, verdict) => ends.push(group.complete(bench.queue, job, verdict)));
    expect([ends, group.isOver]).toEqual([[null], false]);
    // Twice the same, and one of a queue that has no part any more: neither is the other queue's.
    expect([group.complete(bench.queue, 1, ok), group.complete(bench.queue, 7, ok)]).toEqual([null, null]);
    expect(bench.anomalies.toObject()).toEqual({ 'unknown-completion': 2 });
    expect([group.cancel(), group.numPending]).toEqual([1, 1]);
    queue.drain((job, verdict) => ends.push(group.complete(queue, job, verdict)));
    expect([ends, group.isOver]).toEqual([[null, cancelled], true]);
  });

  it('has parts without blocks as others', () => {
    using bench = new LaneBench(hostLanes());
    const group = new TransferGroup(bench.anomalies);
    const jobs = [group.submit(bench.lane, ids(), ids()), group.submit(bench.lane, ids(), ids(), 3)];
    expect([group.seal(), [...group.pending(bench.queue)]]).toEqual([null, jobs]);
    bench.lane.settle(3);
    bench.lane.flush(group.pending(bench.queue));
    const ends: unknown[] = [];
    bench.queue.drain((job, verdict) => ends.push(group.complete(bench.queue, job, verdict)));
    expect(ends).toEqual([null, ok]);
  });

  it('is cancelled whole although a lane of it is gone, which has ended its jobs', () => {
    using bench = new LaneBench(hostLanes());
    using gone = new HostLane(bench.queue, bench.source, bench.target);
    const group = new TransferGroup(bench.anomalies);
    group.submit(gone, ids(1), ids(1), 5);
    group.submit(bench.lane, ids(2), ids(2), 5);
    gone.dispose();
    expect(group.cancel()).toBe(1);
    // Nor does it hide why a part was refused.
    expect(codeOf(() => group.submit(bench.lane, ids(99), ids(3)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    group.seal();
    const ends: unknown[] = [];
    bench.queue.drain((job, verdict) => ends.push([verdict, group.complete(bench.queue, job, verdict)]));
    expect(ends).toEqual([
      [cancelled, null],
      [cancelled, failed],
    ]);
  });

  it('knows the worse of two verdicts', () => {
    const all = [ok, failed, cancelled];
    const table = all.map((a) => all.map((b) => worseVerdict(a, b)));
    expect(table).toEqual([
      [ok, failed, cancelled],
      [failed, failed, failed],
      [cancelled, failed, cancelled],
    ]);
  });
});
