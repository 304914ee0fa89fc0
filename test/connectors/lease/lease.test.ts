// Hand-overs in every way, leases that end at the worst moment, aborts in every state.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { settled } from '../../support/engine-bench.js';
import { FAR, kindOf, LEASE_MS, type Node, type NodeOptions, SEED, World } from './world.js';

let world: World;
let p: Node;
let d: Node;

beforeEach(() => {
  world = new World();
});
afterEach(() => world.dispose());

function pair(forP: NodeOptions = {}, forD: NodeOptions = {}): void {
  [p, d] = world.pair(forP, forD);
}

const right = (prompt: Int32Array, count: number) => unpagedText(prompt, count, { seed: SEED });

async function decode(prompt: Int32Array, transferParams: Readonly<Record<string, unknown>>): Promise<void> {
  const { tokens } = await world.ended(d.engine.submit({ prompt, maxTokens: 5, transferParams }));
  expect([...tokens]).toEqual(right(prompt, 5));
}

/** Turns of one engine alone: nothing is delivered, and no copy ends. */
async function alone(node: Node, turns: number, ms = 1): Promise<void> {
  for (let i = 0; i < turns; i++) {
    world.time += ms;
    await node.step();
  }
}

describe('a hand-over', () => {
  it.each([
    { depth: 1, sharedMemory: true, way: 'memory' },
    { depth: 2, sharedMemory: true, way: 'memory' },
    { depth: 3, sharedMemory: true, way: 'memory' },
    { depth: 2, sharedMemory: false, way: 'messages' },
  ] as const)('by $way at depth $depth', async ({ depth, sharedMemory, way }) => {
    pair(
      { engine: { pipelineDepth: depth } },
      { engine: { pipelineDepth: depth }, worker: { sharedMemory } },
    );
    for (const length of [3, 4, 21, 64]) {
      const prompt = wordy(length, length);
      await decode(prompt, await world.prefill(prompt));
    }
    await world.rest();
    expect(d.worker.stats()).toMatchObject({ reads: { ok: 4, failed: 0 }, ways: { [way]: 4 } });
    expect(p.worker.stats().leases).toMatchObject({ granted: 4, read: 4, expired: 0 });
    expect(d.engine.stats().scheduler.externalHits).toBe(88);
  });

  it('of a prompt that is in the local cache gives the lease back at once', async () => {
    pair();
    const prompt = wordy(21, 1);
    await decode(prompt, await world.prefill(prompt));
    const params = await world.prefill(prompt);
    await decode(prompt.slice(0, 21), params);
    const more = wordy(21, 1).slice(0, 20);
    await decode(more, await world.prefill(more));
    const before = world.time;
    await world.until(() => p.isAtRest, 'the producer is free');
    expect(world.time - before).toBeLessThan(LEASE_MS / 4);
    expect(d.connector.stats().localHits).toBeGreaterThan(0);
    await world.rest();
  });

  it.each([1, 2, 3] as const)(
    'goes back with turn two of a conversation: the first engine loads the answer (depth %i)',
    async (depth) => {
      pair({ engine: { pipelineDepth: depth } }, { engine: { pipelineDepth: depth } });
      let text = wordy(21, 1);
      let params: Readonly<Record<string, unknown>> = {};
      for (let turn = 0; turn < 3; turn++) {
        const first = await world.ended(
          p.engine.submit({ prompt: text, maxTokens: 1, transferParams: { ...params, ...FAR } }),
        );
        // All but the last token of the answer before, whose KV nobody has computed.
        expect(first.numCachedTokens).toBe(turn === 0 ? 0 : text.length - 6);
        const answer = await world.ended(
          d.engine.submit({
            ...{ prompt: text, maxTokens: 6, transferParams: { ...first.transferParams, ...FAR } },
          }),
        );
        expect(answer.numCachedTokens).toBe(text.length - 1);
        expect([...answer.tokens]).toEqual(right(text, 6));
        params = answer.transferParams ?? {};
        text = Int32Array.from([...text, ...answer.tokens, ...wordy(5, 40 + turn)]);
      }
      expect([p.worker.stats().reads.ok, d.worker.stats().reads.ok]).toEqual([2, 3]);
      // Nobody comes for the last answer.
      d.engine.giveBack(params);
      await world.rest();
    },
  );

  it('between two producers and two consumers', async () => {
    pair();
    const q = world.add('q');
    const e = world.add('e');
    const trips = [p, q, p, q, p, q].map(async (from, i) => {
      const prompt = wordy(17 + 5 * i, i);
      const first = await from.engine.submit({ prompt, maxTokens: 1, transferParams: FAR }).result();
      const to = i % 3 === 0 ? d : e;
      const rest = await to.engine
        .submit({ prompt, maxTokens: 5, transferParams: first.transferParams ?? {} })
        .result();
      expect([...rest.tokens]).toEqual(right(prompt, 5));
    });
    let isOver = false;
    void Promise.all(trips).then(() => {
      isOver = true;
    });
    await world.until(() => isOver, 'all arrive');
    await Promise.all(trips);
    await world.rest();
    expect(d.worker.stats().reads.ok + e.worker.stats().reads.ok).toBe(6);
  });

  it('of another prompt than was computed costs a computation, and gives the lease back', async () => {
    pair();
    const params = await world.prefill(wordy(30, 1));
    const other = wordy(30, 2);
    await decode(other, params);
    await world.until(() => p.isAtRest, 'the producer is free');
    expect(d.connector.stats()).toMatchObject({ otherTokens: 1, loads: 0 });
    expect(p.worker.stats().leases).toMatchObject({ released: 1, expired: 0 });
  });

  it('of an aborted, or a failed request does not happen', async () => {
    pair();
    const stream = p.engine.submit({ prompt: wordy(30, 1), maxTokens: 20, transferParams: FAR });
    await alone(p, 3);
    stream.abort();
    const { transferParams } = await world.ended(stream);
    expect(transferParams).toBeNull();
    await world.rest();
    expect(p.connector.stats().offered).toBe(0);
  });
});

describe('a lease', () => {
  it.each(['is told of it', 'is not told of it, and asks'])(
    'that ended while the blocks were copied: what was read does not count, where the reader %s',
    async (how) => {
      pair();
      const prompt = wordy(40, 1);
      const params = await world.prefill(prompt);
      const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
      // The consumer comes as far as its copy, which then stands still, as a process that was stopped.
      await world.stalledTurns(20);
      expect(d.worker.stats().reads).toMatchObject({ open: 1, ok: 0 });
      // Meanwhile the lease ends, and others write the blocks.
      await alone(p, 3, LEASE_MS);
      expect(p.worker.stats().leases).toMatchObject({ expired: 1, open: 0 });
      for (let i = 0; i < 6; i++) {
        const other = p.engine.submit({ prompt: wordy(60, 50 + i), maxTokens: 4 });
        let isOver = false;
        void other.result().then(() => {
          isOver = true;
        });
        while (!isOver) await alone(p, 1);
      }
      if (how !== 'is told of it') {
        world.parcels.length = 0;
        d.lanes.runAll();
        await alone(d, 1);
        const asked = world.parcels.filter((parcel) => kindOf(parcel) === 'confirm');
        expect(asked).toHaveLength(1);
        world.parcels.splice(0, Infinity, ...asked);
      }
      const { tokens } = await world.ended(stream);
      expect([...tokens]).toEqual(right(prompt, 5));
      expect(d.worker.stats().reads).toMatchObject({ open: 0, ok: 0 });
      expect(d.engine.stats().scheduler.failedLoads).toBe(1);
      await world.rest();
    },
  );

  it('that ended while the consumer queued is never read', async () => {
    pair({}, { engine: { maxNumSeqs: 1 } });
    const prompt = wordy(40, 1);
    const params = await world.prefill(prompt);
    const first = d.engine.submit({ prompt: wordy(8, 9), maxTokens: 60 });
    await alone(d, 3);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    await alone(p, 3, LEASE_MS);
    world.parcels.length = 0;
    await world.ended(first);
    const { tokens } = await world.ended(stream);
    expect([...tokens]).toEqual(right(prompt, 5));
    expect(d.worker.stats().reads).toMatchObject({ ok: 0, refused: 0, failed: 0 });
    expect(d.connector.stats()).toMatchObject({ lost: 1, loads: 0 });
    expect(d.engine.stats().scheduler.failedLoads).toBe(0);
    await world.rest();
  });

  it('lives for as long as its consumer queues', async () => {
    pair({ connector: { maxQueueMs: 1000 * LEASE_MS } }, { engine: { maxNumSeqs: 1 } });
    const prompt = wordy(40, 1);
    const params = await world.prefill(prompt);
    const first = d.engine.submit({ prompt: wordy(8, 9), maxTokens: 80 });
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    const begun = world.time;
    let isOver = false;
    void first.result().then(() => {
      isOver = true;
    });
    while (!isOver) await world.turn(60);
    expect(world.time - begun).toBeGreaterThan(3 * LEASE_MS);
    await world.ended(stream);
    expect(d.worker.stats().reads.ok).toBe(1);
    await world.rest();
  });

  it('is over for a consumer that queues for too long, which then computes the prompt itself', async () => {
    pair({ connector: { maxQueueMs: 3 * LEASE_MS } }, { engine: { maxNumSeqs: 1 } });
    const prompt = wordy(40, 1);
    const params = await world.prefill(prompt);
    d.engine.submit({ prompt: wordy(8, 9), maxTokens: 80 });
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    const begun = world.time;
    while (p.worker.stats().leases.expired === 0) await world.turn(60);
    expect(world.time - begun).toBeGreaterThan(3 * LEASE_MS);
    expect(world.time - begun).toBeLessThan(4 * LEASE_MS);
    expect((await world.ended(stream)).finishReason).toBe('length');
    expect(d.worker.stats().reads.ok).toBe(0);
    await world.rest();
  });

  it('is given back at once when the client of a queued request leaves', async () => {
    pair({}, { engine: { maxNumSeqs: 1 } });
    const params = await world.prefill(wordy(40, 1));
    const first = d.engine.submit({ prompt: wordy(8, 9), maxTokens: 60 });
    const stream = d.engine.submit({ prompt: wordy(40, 1), maxTokens: 5, transferParams: params });
    for (let i = 0; i < 5; i++) await world.turn();
    stream.abort();
    await world.until(() => p.isAtRest, 'the producer is free');
    expect(p.worker.stats().leases).toMatchObject({ released: 1, expired: 0, open: 0 });
    await world.ended(first);
    await world.rest();
  });

  it('is given back by a request that was aborted before its producer could be asked', async () => {
    pair();
    const params = await world.prefill(wordy(40, 1));
    const stream = d.engine.submit({ prompt: wordy(40, 1), maxTokens: 5, transferParams: params });
    await alone(d, 1);
    stream.abort();
    await world.ended(stream);
    await world.until(() => p.isAtRest && d.isAtRest, 'both are at rest');
    expect(p.worker.stats().leases).toMatchObject({ released: 1, expired: 0 });
  });

  it('of a peer that never answers is given up, although its engine has nothing to compute', async () => {
    pair();
    const params = await world.prefill(wordy(40, 1));
    world.muted = true;
    const stream = d.engine.submit({ prompt: wordy(40, 1), maxTokens: 5, transferParams: params });
    await alone(d, 1);
    stream.abort();
    await alone(d, 50, 20);
    expect(d.isAtRest).toBe(true);
    world.muted = false;
    await world.rest();
    expect(p.worker.stats().leases.expired).toBe(1);
  });

  it.each(['released', 'read'] as const)('that was %s before it was granted', async (how) => {
    pair();
    const prompt = wordy(40, 1);
    const first = p.engine.submit({ prompt, maxTokens: 1, transferParams: FAR });
    let params: Readonly<Record<string, unknown>> | null = null;
    void first.result().then(({ transferParams }) => {
      params = transferParams;
    });
    while (params === null) await alone(p, 1);
    // The producer does not make another step yet, so that its worker does not know of the lease.
    expect(p.worker.stats().leases.open).toBe(0);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    for (let i = 0; i < 5; i++) {
      await alone(d, 1, 5);
      world.deliver();
    }
    if (how === 'released') {
      stream.abort();
      for (let i = 0; i < 5; i++) {
        await alone(d, 1, 5);
        world.deliver();
      }
      expect(p.worker.stats().leases.early).toBe(1);
      await alone(p, 3);
      expect(p.worker.stats().leases).toMatchObject({ open: 0, released: 1, early: 0 });
    } else {
      await world.ended(stream);
      expect(d.worker.stats().reads.ok).toBe(1);
    }
    await world.rest();
    expect(p.worker.stats().leases.expired).toBe(0);
  });
});

describe('a load', () => {
  it.each([true, false])(
    'writes only when the steps before it were executed (shared memory: %s)',
    async (sharedMemory) => {
      pair({}, { engine: { pipelineDepth: 2 }, worker: { sharedMemory } });
      const prompt = wordy(40, 1);
      const params = await world.prefill(prompt);
      const other = d.engine.submit({ prompt: wordy(9, 2), maxTokens: 30 });
      const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
      // A step is always in flight, also when the load begins: from then on no step is answered.
      for (let i = 0; i < 100 && d.connector.stats().loads === 0; i++) {
        world.time++;
        d.engine.step();
        if (d.connector.stats().loads === 1) break;
        if (d.waiting.length > 1) d.waiting.shift()?.();
        await settled();
        await p.step();
        world.deliver();
      }
      expect(d.connector.stats().loads).toBe(1);
      for (let i = 0; i < 10; i++) {
        world.time++;
        d.engine.step();
        await p.step();
        world.deliver();
        d.lanes.runAll();
        p.lanes.runAll();
      }
      expect(d.worker.stats().ways.memoryBytes).toBe(0);
      expect(d.worker.stats().reads.ok).toBe(0);
      expect(d.waiting.length).toBeGreaterThan(0);
      // As far as it may: the bytes of messages wait in the staging arena.
      expect(d.worker.stats().reads.open).toBe(1);
      await world.ended(stream);
      expect(d.worker.stats().reads.ok).toBe(1);
      await world.ended(other);
      await world.rest();
    },
  );

  it.each([true, false])(
    'that is aborted keeps its blocks while a copy may write them (shared memory: %s)',
    async (sharedMemory) => {
      pair({}, { worker: { sharedMemory } });
      const prompt = wordy(40, 1);
      const params = await world.prefill(prompt);
      const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
      await world.stalledTurns(30, [p]);
      stream.abort();
      for (let i = 0; i < 10; i++) {
        world.time++;
        await d.step();
        world.deliver();
      }
      expect(d.worker.stats().reads.open).toBe(1);
      expect(d.engine.stats().scheduler.numDraining).toBe(1);
      d.lanes.runAll();
      await world.rest();
      expect(p.worker.stats().leases).toMatchObject({ released: 1, expired: 0 });
    },
  );
});

describe('an abort behind the end', () => {
  const CONFIRM = { engine: { reclaim: 'on-confirmation' } } as const;

  it('is ignored by default: the KV is handed over', async () => {
    pair();
    const prompt = wordy(40, 1);
    const params = await world.prefill(prompt, { id: 'one' });
    p.engine.abort('one');
    await decode(prompt, params);
    expect(d.worker.stats().reads.ok).toBe(1);
    await world.rest();
  });

  it('frees the blocks at once if nobody reads them', async () => {
    pair(CONFIRM);
    const prompt = wordy(40, 1);
    const params = await world.prefill(prompt, { id: 'one' });
    await world.turn();
    p.engine.abort('one');
    await alone(p, 3);
    expect(p.worker.stats().leases).toMatchObject({ cancelled: 1, open: 0 });
    expect(p.isAtRest).toBe(true);
    await decode(prompt, params);
    expect(d.worker.stats().reads.ok).toBe(0);
    await world.rest();
  });

  async function reading() {
    const prompt = wordy(40, 1);
    const params = await world.prefill(prompt, { id: 'one' });
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    await world.stalledTurns(10);
    expect(p.worker.stats().leases.readings).toBe(1);
    p.engine.abort('one');
    await alone(p, 3);
    return { prompt, stream };
  }

  it('asks the reader to stop, and frees the blocks when it has', async () => {
    pair(CONFIRM);
    const { prompt, stream } = await reading();
    expect(p.isAtRest).toBe(false);
    const before = world.time;
    const { tokens } = await world.ended(stream);
    await world.until(() => p.isAtRest, 'the producer is free');
    expect([...tokens]).toEqual(right(prompt, 5));
    expect(world.time - before).toBeLessThan(LEASE_MS / 4);
    expect(p.worker.stats().leases).toMatchObject({ cancelled: 1, open: 0 });
    await world.rest();
  });

  it('waits for the lease if the reader does not answer', async () => {
    pair(CONFIRM);
    const { stream } = await reading();
    world.muted = true;
    world.parcels.length = 0;
    await alone(p, 10, LEASE_MS / 20);
    expect(p.isAtRest).toBe(false);
    await alone(p, 10, LEASE_MS / 10);
    expect(p.worker.stats().leases).toMatchObject({ cancelled: 1, open: 0 });
    expect(p.isAtRest).toBe(true);
    world.muted = false;
    await world.ended(stream);
    await world.rest();
  });
});
