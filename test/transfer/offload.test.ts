import { describe, expect, it } from 'vitest';
import { Anomalies } from '../../src/index.js';
import { worseVerdict } from '../../src/transfer/verdict.js';
import {
  BlockArena,
  CompletionQueue,
  HostLane,
  type RankedJob,
  RankedJobs,
  Verdict,
} from '../../src/transfer.js';
import { seeded } from '../support/core-bench.js';
import { LaneJobs } from '../support/lane-jobs.js';
import { BLOCK_BYTES, bytesOf, ids, verdictName } from './support.js';

const NUM_BLOCKS = 16;
const RANKS = [0, 1];

/** The orders of the scheduler side to all ranks. */
interface Order {
  kind: 'load' | 'store';
  handle: number;
  keys: readonly number[];
  kv: Int32Array;
  tier: Int32Array;
}

/** The report of a rank that is done with an order. */
interface Report {
  order: number;
  rank: number;
  verdict: Verdict;
}

/** A part of an order: one job of a lane. */
interface Part {
  order: number;
  whole: { pending: number; verdict: Verdict };
}

/** The worker side of one rank: a lane and a queue for each direction, so that the numbers of both are the same. */
class Rank implements Disposable {
  readonly rank: number;
  readonly kv = BlockArena.allocate({ numBlocks: NUM_BLOCKS, bytesPerBlock: BLOCK_BYTES });
  readonly tier = BlockArena.allocate({ numBlocks: NUM_BLOCKS, bytesPerBlock: BLOCK_BYTES });
  readonly loads: HostLane;
  readonly stores: HostLane;
  readonly jobs = new LaneJobs<Part>();
  /** Of orders whose parts are all over. */
  #reports: Report[] = [];

  constructor(rank: number, anomalies: Anomalies) {
    this.rank = rank;
    this.loads = new HostLane(new CompletionQueue({ anomalies }), this.tier, this.kv);
    this.stores = new HostLane(new CompletionQueue({ anomalies }), this.kv, this.tier);
  }

  /** Begins an order in two parts, of which one may have no blocks. */
  begin(order: number, { kind, handle, kv, tier }: Order, notBefore: number): void {
    const lane = kind === 'load' ? this.loads : this.stores;
    const whole = { pending: 2, verdict: Verdict.ok as Verdict };
    const middle = kv.length >> 1;
    for (const [from, to] of [
      [0, middle],
      [middle, kv.length],
    ]) {
      const [blocks, there] = [kv.subarray(from, to), tier.subarray(from, to)];
      const [sources, targets] = kind === 'load' ? [there, blocks] : [blocks, there];
      const job = lane.submit(sources, targets, notBefore);
      this.jobs.add(lane.queue, job, { handle, kind, blocks, payload: { order, whole } });
    }
  }

  collect(): Report[] {
    for (const { queue } of [this.loads, this.stores]) {
      queue.drain((job, verdict) => {
        const { order, whole } = this.jobs.complete(queue, job).payload;
        whole.verdict = worseVerdict(whole.verdict, verdict);
        if (--whole.pending === 0) this.#reports.push({ order, rank: this.rank, verdict: whole.verdict });
      });
    }
    return this.#reports.splice(0);
  }

  /** Before these blocks of the KV memory are somebody else's. */
  release(blocks: Int32Array): void {
    for (const lane of [this.loads, this.stores]) lane.flush(this.jobs.touching(lane.queue, blocks));
  }

  /** Nothing that was begun so far touches memory any more, or is spoken of again. */
  reset(): void {
    for (const lane of [this.loads, this.stores]) {
      lane.fence();
      lane.queue.reset();
      this.jobs.clear(lane.queue);
    }
  }

  [Symbol.dispose](): void {
    for (const lane of [this.loads, this.stores]) {
      lane.dispose();
      lane.queue.dispose();
    }
    this.kv.dispose();
    this.tier.dispose();
  }
}

/** The scheduler side: the blocks of the tier, as far as every rank has reported them. */
class Offload implements Disposable {
  readonly anomalies = new Anomalies(false);
  readonly ranks = RANKS.map((rank) => new Rank(rank, this.anomalies));
  readonly orders = new RankedJobs<Order>(this.anomalies);
  /** Block of the tier by key. */
  readonly stored = new Map<number, number>();
  readonly ended: RankedJob<Order>[] = [];
  /** The key that the latest store writes into a block of the tier. */
  readonly #coming = new Map<number, number>();

  begin(order: Order, notBefore = -1): number {
    const { kind, keys, tier } = order;
    if (kind === 'store') for (const [i, key] of keys.entries()) this.#coming.set(tier[i], key);
    const number = this.orders.begin(RANKS, order);
    for (const rank of this.ranks) rank.begin(number, order, notBefore);
    return number;
  }

  apply(reports: readonly Report[]): void {
    for (const { order, rank, verdict } of reports) {
      const over = this.orders.report(order, rank, verdict);
      if (over === null) continue;
      this.ended.push(over);
      const { kind, keys, tier } = over.payload;
      if (kind === 'load' || over.verdict !== Verdict.ok) continue;
      for (const [i, key] of keys.entries())
        if (this.#coming.get(tier[i]) === key) this.stored.set(key, tier[i]);
    }
  }

  [Symbol.dispose](): void {
    for (const rank of this.ranks) rank[Symbol.dispose]();
  }
}

/** The content of a key in a rank's KV memory. */
const contents = (key: number, rank: number) => bytesOf(key, 10 + rank);

function compute(rank: Rank, keys: readonly number[], blocks: Int32Array): void {
  for (const [i, key] of keys.entries()) rank.kv.writeBlock(blocks[i], contents(key, rank.rank));
}

describe('an offload of two ranks', () => {
  it('has stored, or loaded, what both ranks have', () => {
    using offload = new Offload();
    const [first, second] = offload.ranks;
    const order = {
      kind: 'store' as const,
      handle: 7,
      keys: [1, 2, 3],
      kv: ids(4, 5, 9),
      tier: ids(0, 1, 2),
    };
    for (const rank of offload.ranks) compute(rank, order.keys, order.kv);
    const store = offload.begin(order, 5);
    first.stores.settle(5);
    first.release(order.kv);
    offload.apply(first.collect());
    expect([offload.orders.silent(store), offload.stored.size]).toEqual([[1], 0]);
    second.stores.settle(5);
    second.release(order.kv);
    const reports = second.collect();
    offload.apply(reports);
    offload.apply(reports); // twice the same
    expect(offload.ended.map(({ job, verdict }) => [job, verdictName(verdict)])).toEqual([[store, 'ok']]);
    expect(Object.fromEntries(offload.stored)).toEqual({ 1: 0, 2: 1, 3: 2 });
    expect(offload.anomalies.toObject()).toEqual({ 'duplicate-completion': 1 });
    // A load while another store runs: the numbers of their jobs are the same on both queues.
    const load = { kind: 'load' as const, handle: 8, keys: [3], kv: ids(12), tier: ids(2) };
    offload.begin(load);
    offload.begin({ ...order, handle: 9, keys: [4], kv: ids(4), tier: ids(7) }, 9);
    for (const rank of offload.ranks) {
      expect(rank.jobs.size).toBe(4);
      rank.release(load.kv);
      expect(rank.kv.readBlock(12)).toEqual(contents(3, rank.rank));
      offload.apply(rank.collect());
      expect([rank.jobs.has(8), rank.jobs.has(9, 'store')]).toEqual([false, true]);
    }
    expect(offload.ended.map(({ payload }) => payload.handle)).toEqual([7, 8]);
  });

  it('has stored nothing where one rank has not', () => {
    using offload = new Offload();
    const order = { kind: 'store' as const, handle: 7, keys: [1, 2], kv: ids(4, 5), tier: ids(0, 1) };
    offload.begin(order, 5);
    const [first, second] = offload.ranks;
    for (const { job } of first.jobs.of(7)) first.stores.cancel(job);
    second.stores.settle(5);
    for (const rank of offload.ranks) {
      rank.release(order.kv);
      offload.apply(rank.collect());
    }
    expect(offload.ended.map(({ verdict }) => verdictName(verdict))).toEqual(['cancelled']);
    expect([offload.stored.size, offload.anomalies.toObject()]).toEqual([0, {}]);
  });

  it('forgets all that is under way in a reset, and takes no late report for a new order', () => {
    using offload = new Offload();
    const order = { kind: 'store' as const, handle: 7, keys: [1, 2], kv: ids(4, 5), tier: ids(0, 1) };
    offload.begin(order);
    const [first, second] = offload.ranks;
    first.release(order.kv);
    const late = first.collect();
    for (const rank of offload.ranks) rank.reset();
    expect(offload.orders.reset().map(({ payload }) => payload)).toEqual([order]);
    const next = offload.begin({ ...order, handle: 8, keys: [3, 4] }, 3);
    offload.apply([...late, ...second.collect()]);
    expect([offload.ended, offload.orders.silent(next)]).toEqual([[], [0, 1]]);
    for (const rank of offload.ranks) {
      rank.stores.settle(3);
      rank.release(order.kv);
      offload.apply(rank.collect());
    }
    expect(offload.ended.map(({ job }) => job)).toEqual([next]);
    expect([...offload.stored.keys()]).toEqual([3, 4]);
    // Two jobs of the second rank, which no drain hands out; one report of the first.
    expect(offload.anomalies.toObject()).toEqual({ 'after-reset': 3 });
    expect(offload.ranks.map(({ jobs, stores }) => [jobs.size, stores.queue.inFlight])).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });

  it('brings back what it took away, in any order', () => {
    const random = seeded(12);
    using offload = new Offload();
    let loads = 0;
    for (let step = 0; step < 300; step++) {
      const from = random(NUM_BLOCKS - 4);
      const blocks = Int32Array.from({ length: random(4) }, (_, i) => from + i);
      for (const rank of offload.ranks) rank.release(blocks);
      const known = [...offload.stored.keys()];
      if (random(2) === 0 && known.length > 0) {
        const keys = [...blocks].map(() => known[random(known.length)]);
        const tier = Int32Array.from(keys, (key) => offload.stored.get(key)!);
        for (const key of keys) expect(key % NUM_BLOCKS).toBe(offload.stored.get(key));
        offload.begin({ kind: 'load', handle: step + 1, keys, kv: blocks, tier });
        for (const rank of offload.ranks) {
          rank.release(blocks);
          for (const [i, key] of keys.entries())
            expect(rank.kv.readBlock(blocks[i])).toEqual(contents(key, rank.rank));
        }
        loads += keys.length;
      } else {
        // The place in the tier follows from the key: its earlier block is not offered any more.
        const keys = [...blocks].map((_, i) => step * NUM_BLOCKS + ((from + i + step) % NUM_BLOCKS));
        const tier = Int32Array.from(keys, (key) => key % NUM_BLOCKS);
        for (const [key, block] of offload.stored) if (tier.includes(block)) offload.stored.delete(key);
        for (const rank of offload.ranks) compute(rank, keys, blocks);
        offload.begin({ kind: 'store', handle: step + 1, keys, kv: blocks, tier });
        for (const rank of offload.ranks) if (random(3) > 0) rank.release(blocks);
      }
      for (const rank of offload.ranks) offload.apply(rank.collect());
    }
    expect(loads).toBeGreaterThan(100);
    expect(offload.anomalies.toObject()).toEqual({});
  });
});
