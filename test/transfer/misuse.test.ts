// Bad arguments are refused, and nothing is changed.
import { describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/core/loader.js';
import { Anomalies } from '../../src/index.js';
import { BlockArena, CompletionQueue, HostLane, Leases, RankedJobs, Verdict } from '../../src/transfer.js';
import {
  booby,
  detach,
  foreignRealm,
  NO_COUNTS,
  NO_FINITE_NUMBERS,
  NO_INT32_ARRAYS,
  NO_INTEGERS,
  NO_NUMBERS,
  TOO_LONG,
  throwingProxy,
} from '../misuse/bad-values.js';
import { errorOf, expectReadable } from '../misuse/bench.js';
import { describeValue } from '../misuse/misuse.js';
import { BLOCK_BYTES, bytesOf, hostLanes, ids, LaneBench } from './support.js';

const NO_OBJECTS: unknown[] = [null, 1, 'x', true, 1n, Symbol('s'), () => 1];
const OPTION_OBJECTS: unknown[] = [null, 1, 'x', true, 1n, Symbol('s')];

/**
 * Checks that `call` refuses each of these values with this code, in words that a person can read.
 */
function refuses(
  call: (value: never) => unknown,
  values: readonly unknown[],
  code = 'ERR_BLOCKSTEP_BAD_ARG',
): void {
  const failures: string[] = [];
  for (const [i, value] of values.entries()) {
    const error = errorOf(() => call(value as never)) as { code?: string } | undefined;
    if (error?.code !== code) failures.push(`${i} ${describeValue(value)}: ${String(error?.code ?? error)}`);
    else expectReadable(error as never);
  }
  expect(failures).toEqual([]);
}

const made = (makers: readonly (() => unknown)[]) => makers.map((make) => make());

describe('bad arguments are refused, and nothing is changed:', () => {
  it('a completion queue', () => {
    refuses((options) => new CompletionQueue(options), OPTION_OBJECTS);
    refuses((capacity) => new CompletionQueue({ capacity }), [...NO_COUNTS, 0, 2 ** 20 + 1]);
    refuses((anomalies) => new CompletionQueue({ anomalies }), [...NO_OBJECTS, {}, Object.create(null)]);
    using queue = new CompletionQueue({ capacity: 3 });
    const job = queue.begin();
    refuses((value) => queue.post(value, Verdict.ok), [undefined, ...NO_COUNTS, 0]);
    refuses((value) => queue.post(job, value), [undefined, ...NO_COUNTS, 0, 4]);
    refuses((value) => queue.drain(value), [undefined, ...NO_OBJECTS.slice(0, -1), {}]);
    expect(queue.counts()).toEqual({ inFlight: 1, abandoned: 0, late: 0 });
    expect(queue.anomalies.toObject()).toEqual({});
    expect(queue.post(job, Verdict.ok)).toBe(true);
  });

  it('the native ring', () => {
    const { createRing } = loadAddon();
    refuses(createRing as never, [undefined, ...NO_COUNTS, 0, 2 ** 20 + 1]);
    const ring = createRing(2);
    const job = ring.begin();
    ring.post(job, 1);
    const tooShort = [0, 1, 2, 3].map((length) => new Int32Array(length));
    // A resizable buffer's length is read by each call, and native code writes no further.
    refuses((out) => ring.drain(out), tooShort);
    refuses(
      (out) => ring.drain(out),
      [
        undefined,
        ...made(NO_INT32_ARRAYS).filter((value) => !(value instanceof Int32Array) || isShared(value)),
      ],
    );
    refuses((out) => ring.drain(out), [detach(new Int32Array(8))], 'ERR_BLOCKSTEP_DETACHED');
    const out = booby(new Int32Array(6));
    expect(ring.drain(out)).toBe(1);
    const receivers = [undefined, null, {}, 1, createRing, Object.create(ring), throwingProxy({})];
    refuses((receiver) => Reflect.apply(ring.begin, receiver, []), receivers, 'ERR_BLOCKSTEP_BAD_RECEIVER');
    const Ring = ring.constructor as never as new () => unknown;
    refuses(() => new Ring(), [1]);
    refuses(() => (Ring as never as () => unknown)(), [1]);
    ring.dispose();
    ring.dispose();
    for (const call of [() => ring.begin(), () => ring.drain(out), () => ring.counts(), () => ring.reset()]) {
      refuses(call, [1], 'ERR_BLOCKSTEP_DISPOSED');
    }
  });

  it('an arena', () => {
    refuses((config) => BlockArena.allocate(config), [undefined, ...NO_OBJECTS.slice(0, -1), {}]);
    const bad = [undefined, ...NO_COUNTS, 0];
    refuses((numBlocks) => BlockArena.allocate({ numBlocks, bytesPerBlock: 8 }), [...bad, 2 ** 24 + 1]);
    refuses((bytesPerBlock) => BlockArena.allocate({ numBlocks: 1, bytesPerBlock }), bad);
    using arena = BlockArena.allocate({ numBlocks: 3, bytesPerBlock: 8 });
    refuses((block) => arena.block(block), [undefined, ...NO_COUNTS, 3]);
    refuses((block) => arena.arrivals(block), [undefined, ...NO_COUNTS, 3]);
  });

  it('a lane', () => {
    using bench = new LaneBench(hostLanes());
    const { queue, source, target } = bench;
    using other = BlockArena.allocate({ numBlocks: 3, bytesPerBlock: 8 });
    refuses((value) => new HostLane(value, source, target), [undefined, ...NO_OBJECTS, {}, source]);
    refuses((value) => new HostLane(queue, value, target), [undefined, ...NO_OBJECTS, {}, queue, other]);
    refuses(
      (value) => new HostLane(queue, source, value),
      [undefined, ...NO_OBJECTS, {}, queue, other, source],
    );
    refuses((options) => new HostLane(queue, source, target, options), OPTION_OBJECTS);
    refuses((threads) => new HostLane(queue, source, target, { threads }), [...NO_COUNTS, 0, 17]);
    const noBytes = [...NO_COUNTS, 0].filter((value) => !(Number(isNumber(value)) && inU32(value)));
    refuses((pieceBytes) => new HostLane(queue, source, target, { pieceBytes }), noBytes);
    // Objects that only look like a queue or an arena.
    refuses(
      (native) => new HostLane(queue, new BlockArena(native, source), target),
      [{}, queue.native, bench.lane],
    );
  });

  it('calls of a lane', () => {
    using bench = new LaneBench(hostLanes(), 4);
    const { lane, queue } = bench;
    const arrays = made(NO_INT32_ARRAYS).filter((value) => !(value instanceof Int32Array) || isShared(value));
    refuses((sources) => lane.submit(sources, ids(1)), [undefined, ...arrays]);
    refuses((targets) => lane.submit(ids(1), targets), [undefined, ...arrays]);
    refuses((jobs) => lane.flush(jobs), [undefined, ...arrays, ids(0), ids(-1), ids(1, -(2 ** 31))]);
    refuses(
      (sources) => lane.submit(sources, ids(1)),
      [ids(), ids(1, 2), ids(-1), ids(24), ids(2 ** 31 - 1)],
    );
    refuses((targets) => lane.submit(ids(1), targets), [ids(), ids(1, 2), ids(-1), ids(24), ids(-(2 ** 31))]);
    refuses((targets) => lane.submit(ids(1, 2, 3), targets), [ids(4, 5, 4)]);
    refuses((sources) => lane.submit(sources, ids(1)), [detach(ids(1))], 'ERR_BLOCKSTEP_DETACHED');
    // Two arrays whose memory was given away are no empty lists.
    refuses((both) => lane.submit(both, both), [detach(ids(1))], 'ERR_BLOCKSTEP_DETACHED');
    refuses((both) => lane.submit(ids(), both), [detach(ids(1))], 'ERR_BLOCKSTEP_DETACHED');
    refuses((step) => lane.submit(ids(1), ids(1), step), [...NO_INTEGERS, -2]);
    refuses((step) => lane.settle(step), [undefined, ...NO_INTEGERS, -1]);
    refuses((job) => lane.cancel(job), [undefined, ...NO_COUNTS, 0]);
    expect(lane.counts()).toEqual({ pending: 0, waiting: 0, bytes: 0, copies: 0 });
    expect(queue.counts()).toEqual({ inFlight: 0, abandoned: 0, late: 0 });
    const all = Array.from({ length: 24 }, (_, block) => block);
    expect(bench.origins(...all)).toEqual(all.map(() => -1));
    // Odd, but arrays all the same.
    const subarray = new Int32Array(new ArrayBuffer(20), 4, 2).fill(3).subarray(1);
    const strange = [booby(ids(3)), foreignRealm('Int32Array.of(3)') as Int32Array, subarray];
    for (const sources of strange) lane.flush(ids(lane.submit(sources, ids(9))));
    expect(bench.target.block(9)).toEqual(bytesOf(3, 1, BLOCK_BYTES));
    lane.submit(ids(1), ids(1), Number.MAX_SAFE_INTEGER);
    lane.settle(Number.MAX_SAFE_INTEGER - 1);
    expect(lane.counts().waiting).toBe(1);
  });

  it('jobs of several ranks', () => {
    const anomalies = new Anomalies(false);
    const jobs = new RankedJobs(anomalies);
    const noRanks = [
      undefined,
      ...NO_OBJECTS,
      {},
      ids(0, 1),
      [],
      [0, 1, 0],
      [1, undefined],
      throwingProxy({}),
    ];
    refuses((ranks) => jobs.begin(ranks, undefined), noRanks);
    const noCounts = NO_COUNTS.map((rank) => [0, rank]);
    refuses((ranks) => jobs.begin(ranks, undefined), [...noCounts, new Array(2)]);
    expect([jobs.size, jobs.begin([0, 1], undefined)]).toEqual([0, 1]);
    const noJobs = [undefined, ...NO_INTEGERS, 0, -1];
    refuses((job) => jobs.report(job, 0, Verdict.ok), noJobs);
    refuses((rank) => jobs.report(1, rank, Verdict.ok), [undefined, ...NO_COUNTS]);
    refuses((verdict) => jobs.report(1, 0, verdict), [undefined, ...NO_COUNTS, 0, 4]);
    expect([jobs.silent(1), anomalies.toObject()]).toEqual([[0, 1], {}]);
  });

  it('leases', () => {
    const anomalies = new Anomalies(false);
    const leases = new Leases<number | string>(anomalies);
    const noKeys = [undefined, ...NO_INTEGERS.filter((value) => typeof value !== 'string'), -1, '', TOO_LONG];
    refuses((key) => leases.grant(key, 0, 1), noKeys);
    refuses((now) => leases.grant(1, now, 1), [undefined, ...NO_FINITE_NUMBERS]);
    refuses((ms) => leases.grant(1, 0, ms), [undefined, ...NO_FINITE_NUMBERS, 0, -1]);
    refuses(() => leases.grant(1, 1.7e308, 1.7e308), [1]);
    leases.grant(1, 0, 10);
    refuses((key) => leases.renew(key, 0, 1), noKeys);
    refuses((now) => leases.renew(1, now, 100), [undefined, ...NO_FINITE_NUMBERS]);
    refuses((ms) => leases.renew(1, 0, ms), [undefined, ...NO_FINITE_NUMBERS, 0, -1]);
    refuses((key) => leases.release(key), noKeys);
    refuses((key) => leases.remaining(key, 0), noKeys);
    refuses((now) => leases.remaining(1, now), [undefined, ...NO_FINITE_NUMBERS]);
    refuses((key) => leases.mayRead(key, 0), noKeys);
    refuses((now) => leases.mayRead(1, now), [undefined, ...NO_FINITE_NUMBERS]);
    refuses((now) => leases.expire(now), [undefined, ...NO_FINITE_NUMBERS]);
    expect([leases.size, leases.nextDeadline, anomalies.toObject()]).toEqual([1, 10, {}]);
  });
});

function isShared(value: Int32Array): boolean {
  try {
    return value.buffer instanceof SharedArrayBuffer;
  } catch {
    return false;
  }
}

const isNumber = (value: unknown) => typeof value === 'number' && !NO_NUMBERS.includes(value);
const inU32 = (value: unknown) =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) < 2 ** 32;
