// The stored blocks, and the return of their pins.
import { beforeEach, describe, expect, it } from 'vitest';
import type { HandOver, KvView } from '../../../src/connector.js';
import { NoPlace, OutgoingBlocks, type Reserve } from '../../../src/connectors/base/outgoing-blocks.js';
import { Anomalies, type Plan, type Request } from '../../../src/index.js';
import { Verdict } from '../../../src/transfer.js';

const BLOCK_SIZE = 4;
const RANKS = [0, 1];

/** A request as far as these tests need one: its text, by key of each full block, and its blocks. */
class FakeRequest {
  computed = 0;
  settled = 0;
  constructor(
    readonly slot: number,
    readonly keys: bigint[],
    readonly blocks: number[],
  ) {}

  get request(): Request {
    return this as unknown as Request;
  }
  get numComputedTokens(): number {
    return this.computed;
  }
  get handOver(): HandOver {
    const { settled } = this;
    return {
      blocks: [Int32Array.from(this.blocks)],
      numTokens: settled,
      numSettledTokens: settled,
      readableFrom: -1,
    };
  }
}

const of = (request: Request): FakeRequest => request as unknown as FakeRequest;

/** Pins by block. A pin too few throws, as that of a scheduler does. */
class FakePins {
  readonly counts = new Map<number, number>();
  pin(blocks: Int32Array): void {
    for (const block of blocks) this.counts.set(block, (this.counts.get(block) ?? 0) + 1);
  }
  unpin(blocks: Int32Array): void {
    for (const block of blocks) {
      const count = this.counts.get(block) ?? 0;
      if (count === 0) throw new Error(`block ${block} has no pin`);
      if (count === 1) this.counts.delete(block);
      else this.counts.set(block, count - 1);
    }
  }
}

const view = {
  blockSize: BLOCK_SIZE,
  numGroups: 1,
  layout: '',
  blockHash: (request: Request, index: number) => of(request).keys[index],
  extent: (request: Request) => ({ numSettledTokens: of(request).settled }),
  readBlocks: (request: Request, from: number, out: Int32Array) => {
    const { blocks } = of(request);
    out.set(blocks.slice(from, from + out.length));
    return Math.min(out.length, blocks.length - from);
  },
} as unknown as KvView;

function planOf(...requests: FakeRequest[]): Plan {
  return {
    numRequests: requests.length,
    requests: requests.map(({ request }) => request),
    totalTokens: requests.length,
    slots: Int32Array.from(requests, ({ slot }) => slot),
    numComputedTokens: Int32Array.from(requests, ({ computed }) => computed),
  } as unknown as Plan;
}

describe('blocks that are to be stored', () => {
  let pins: FakePins;
  let anomalies: Anomalies;
  let stored: Set<bigint>;
  let next: number;

  beforeEach(() => {
    pins = new FakePins();
    anomalies = new Anomalies(false);
    stored = new Set();
    next = 100;
  });

  function outgoing(maxPinned = 1000, reserve?: Reserve): OutgoingBlocks {
    const toNext: Reserve = (key) => (stored.has(key) ? NoPlace.unwanted : next++);
    const options = { view, pins, ranks: RANKS, maxPinned, anomalies, reserve: reserve ?? toNext };
    return new OutgoingBlocks(options);
  }

  /** A request of three blocks, of which so many tokens are computed and settled. */
  function request(slot: number, keys: bigint[], tokens: number): FakeRequest {
    const made = new FakeRequest(
      slot,
      keys,
      keys.map((_, i) => 10 * (slot + 1) + i),
    );
    made.computed = made.settled = tokens;
    return made;
  }

  it('are full and settled, each once, in one job for a plan', () => {
    const out = outgoing();
    const [a, b] = [request(0, [1n, 2n, 3n], 9), request(1, [4n, 5n, 6n], 4)];
    for (const { request } of [a, b]) out.track(request);
    a.settled = 7; // one more block is computed by a step in flight
    out.observe(planOf(a, b));
    expect(out.drain()).toEqual({
      job: 1,
      keys: [1n, 4n],
      blocks: Int32Array.of(10, 20),
      places: Int32Array.of(100, 101),
    });
    expect(out.drain()).toBeNull();
    a.settled = 9;
    out.observe(planOf(a, b));
    expect(out.drain()).toMatchObject({ job: 2, keys: [2n], blocks: Int32Array.of(11) });
    out.observe(planOf(a, b));
    expect(out.drain()).toBeNull();
    expect([out.numPinned, out.numJobs, ...pins.counts.values()]).toEqual([3, 2, 1, 1, 1]);
  });

  it('are pinned until every rank has reported, whatever it reported', () => {
    const out = outgoing();
    const a = request(0, [1n, 2n], 8);
    out.track(a.request);
    out.observe(planOf(a));
    out.drain();
    expect(out.report(1, 0, Verdict.failed)).toBeNull();
    expect(out.report(1, 0, Verdict.ok)).toBeNull(); // twice
    expect([...pins.counts.keys()]).toEqual([10, 11]);
    expect(out.report(1, 1, Verdict.ok)).toMatchObject({ keys: [1n, 2n], verdict: Verdict.failed });
    expect([pins.counts.size, out.numPinned]).toEqual([0, 0]);
    expect(out.report(1, 1, Verdict.ok)).toBeNull();
    expect(anomalies.toObject()).toMatchObject({ 'duplicate-completion': 2 });
    // When its job has ended, a block may be stored again for another request.
    const b = request(1, [1n], 4);
    out.track(b.request);
    out.observe(planOf(b));
    expect(out.drain()).toMatchObject({ job: 2, keys: [1n] });
  });

  it('are not stored twice while they are on their way, by whichever request', () => {
    const out = outgoing();
    const [a, b] = [request(0, [1n, 2n], 8), request(1, [1n, 3n], 8)];
    for (const { request } of [a, b]) out.track(request);
    out.observe(planOf(a, b));
    expect(out.drain()).toMatchObject({ keys: [1n, 2n, 3n], blocks: Int32Array.of(10, 11, 21) });
    expect(pins.counts.has(20)).toBe(false);
  });

  it('include the last ones of a request that ends', () => {
    const out = outgoing();
    const a = request(0, [1n, 2n, 3n], 4);
    out.track(a.request);
    out.observe(planOf(a));
    a.settled = 12;
    out.finish(a.request, a.handOver);
    expect(out.drain()).toMatchObject({ keys: [1n, 2n, 3n], blocks: Int32Array.of(10, 11, 12) });
    expect(out.numSkipped).toBe(0);
  });

  it('wait where too many are pinned or there is no room, and are counted if their request ends before', () => {
    const out = outgoing(2);
    const a = request(0, [1n, 2n, 3n], 12);
    out.track(a.request);
    out.observe(planOf(a));
    expect(out.drain()).toMatchObject({ keys: [1n, 2n] });
    out.observe(planOf(a));
    expect(out.drain()).toBeNull();
    out.report(1, 0, Verdict.ok);
    out.report(1, 1, Verdict.ok);
    out.observe(planOf(a));
    expect(out.drain()).toMatchObject({ keys: [3n], blocks: Int32Array.of(12) });

    const none = outgoing(1000, () => NoPlace.later);
    none.track(a.request);
    none.observe(planOf(a));
    none.finish(a.request, a.handOver);
    expect([none.drain(), none.numSkipped]).toEqual([null, 3]);
  });

  it('are the new ones where a slot has a new request', () => {
    const out = outgoing();
    const a = request(70, [1n, 2n], 8);
    out.track(a.request);
    out.observe(planOf(a));
    const b = request(70, [3n, 4n], 8);
    out.track(b.request);
    out.observe(planOf(b));
    expect(out.drain()).toMatchObject({ keys: [1n, 2n, 3n, 4n] });
  });

  it('count as failed if their KV was lost while they were collected or stored, and only then', () => {
    const out = outgoing();
    const a = request(0, [1n, 2n, 3n], 4);
    out.track(a.request);
    out.observe(planOf(a));
    out.drain(); // job 1: block 10
    a.computed = a.settled = 8;
    out.observe(planOf(a)); // block 11 is collected
    out.lose([10, 11, 99]);
    out.drain(); // job 2
    for (const job of [1, 2])
      expect([0, 1].map((rank) => out.report(job, rank, Verdict.ok))[1]).toMatchObject({
        verdict: Verdict.failed,
      });
    a.computed = a.settled = 12;
    out.lose([12]);
    out.observe(planOf(a)); // computed again since
    out.drain();
    expect([0, 1].map((rank) => out.report(3, rank, Verdict.ok))[1]).toMatchObject({ verdict: Verdict.ok });
  });
});
