// Leases of a paused engine, in doubt, refused when they are announced, or too long.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { wordy } from '../../executors/reference/support.js';
import { LEASE_MS, type Node, type NodeOptions, World } from './world.js';

let world: World;
let p: Node;
let d: Node;

beforeEach(() => {
  world = new World();
});
afterEach(() => {
  vi.useRealTimers();
  world.dispose();
});

function pair(forD: NodeOptions = {}): void {
  [p, d] = world.pair({}, { ...forD, engine: { loadFailurePolicy: 'fail', ...forD.engine } });
}

const prompt = wordy(40, 1);

/** The queued request of a paused engine whose run loop has the only timers, which the test lets pass. */
async function pausedFor(ms: number, mode: 'new' | 'all', running: boolean, forD: NodeOptions = {}) {
  pair({ ...forD, engine: { maxNumSeqs: 1 } });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const params = await world.prefill(prompt);
  void d.engine.run();
  const other = running ? d.engine.submit({ prompt: wordy(8, 9), maxTokens: 80 }) : null;
  if (!running) d.engine.pause(mode);
  const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
  for (let i = 0; i < 20; i++) {
    d.waiting.shift()?.();
    await turn(0);
  }
  if (running) d.engine.pause(mode);
  for (let passed = 0; passed < ms; passed += 10) await turn(10);
  return { stream, other };
}

/** A turn of the event loop behind so many milliseconds. The executor of the paused engine answers nothing. */
async function turn(ms: number): Promise<void> {
  world.time += ms;
  vi.advanceTimersByTime(ms);
  await new Promise(setImmediate);
  await p.step();
  world.deliver();
  d.lanes.runAll();
}

/** The engine goes on, and its executor answers. */
async function ended(stream: { result(): Promise<{ numCachedTokens: number; finishReason: string }> }) {
  let isOver = false;
  const result = stream.result().finally(() => {
    isOver = true;
  });
  result.catch(() => {});
  for (let i = 0; !isOver && i < 2000; i++) {
    d.waiting.shift()?.();
    await turn(1);
  }
  return await result;
}

describe('a paused engine', () => {
  it.each([
    { mode: 'new', running: false, what: 'nothing runs' },
    { mode: 'all', running: false, what: 'nothing runs' },
    { mode: 'new', running: true, what: 'a step takes as long as the pause' },
    { mode: 'all', running: true, what: 'a step takes as long as the pause' },
  ] as const)('keeps the leases of its queue alive ($mode, $what)', async ({ mode, running }) => {
    const { stream, other } = await pausedFor(5 * LEASE_MS, mode, running);
    expect(p.worker.stats().leases).toMatchObject({ expired: 0, open: 1 });
    d.engine.resume();
    expect(await ended(stream)).toMatchObject({ numCachedTokens: 39, finishReason: 'length' });
    expect(d.worker.stats().reads).toMatchObject({ ok: 1, refused: 0, failed: 0 });
    if (other !== null) await ended(other);
  });

  it('makes no plans meanwhile, and few turns', async () => {
    let asked = 0;
    const now = () => {
      asked++;
      return world.time;
    };
    await pausedFor(LEASE_MS, 'all', false, { worker: { now } });
    const { step } = d.engine.stats().scheduler;
    asked = 0;
    for (let passed = 0; passed < 1000; passed += 10) await turn(10);
    expect(d.engine.stats().scheduler.step).toBe(step);
    // Each turn reads the clock once, and so does each of the answers.
    expect(asked).toBeGreaterThan(15);
    expect(asked).toBeLessThan(40);
  });
});

describe('a lease that was found alive longer ago than it lasts', () => {
  /** The engine that is to read queues a request, finds its lease alive, and then nobody steps it. */
  async function queued() {
    pair({ engine: { maxNumSeqs: 1 }, worker: { peerTimeoutMs: 10 * LEASE_MS } });
    const params = await world.prefill(prompt);
    const first = d.engine.submit({ prompt: wordy(8, 9), maxTokens: 12 });
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    for (let i = 0; i < 5; i++) await world.turn();
    expect(d.worker.stats().reads.watched).toBe(1);
    return { first, stream };
  }

  it('is asked about again before it is read', async () => {
    const { first, stream } = await queued();
    // Nothing comes or goes for longer than the lease.
    world.muted = true;
    for (let i = 0; i < 3; i++) {
      world.time += LEASE_MS / 2;
      await d.step();
      await p.step();
    }
    world.muted = false;
    await world.ended(first);
    expect((await world.ended(stream)).finishReason).toBe('length');
    // The lease had expired, and so no load was begun.
    expect(d.worker.stats().reads).toMatchObject({ ok: 0, refused: 0, failed: 0 });
    expect(d.connector.stats()).toMatchObject({ loads: 0, lost: 1 });
    await world.rest();
  });

  it('is read if it holds after all', async () => {
    const { first, stream } = await queued();
    // Its signs of life arrive, and only the answers are lost.
    for (let i = 0; i < 20; i++) {
      world.time += LEASE_MS / 10;
      await d.step();
      await p.step();
      world.deliverTo('p');
      world.parcels.length = 0;
    }
    expect(d.connector.stats()).toMatchObject({ loads: 0, lost: 0 });
    await world.ended(first);
    expect((await world.ended(stream)).numCachedTokens).toBe(39);
    await world.rest();
  });
});

describe('an opening that is refused', () => {
  it.each([
    { loadFailurePolicy: 'fail', pipelineDepth: 1 },
    { loadFailurePolicy: 'fail', pipelineDepth: 2 },
    { loadFailurePolicy: 'recompute', pipelineDepth: 3 },
  ] as const)('costs a computation ($loadFailurePolicy, depth $pipelineDepth)', async (engine) => {
    pair({ engine });
    const params = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    for (let i = 0; d.connector.stats().loads === 0 && i < 50; i++) {
      world.time++;
      await p.step();
      world.deliver();
      await d.step();
    }
    // The announcement is on its way, and comes when the lease is over.
    const held = world.parcels.splice(0);
    for (let i = 0; i < 3; i++) {
      world.time += LEASE_MS / 2;
      await p.step();
    }
    world.parcels.push(...held);
    const { numCachedTokens, finishReason } = await world.ended(stream);
    expect([numCachedTokens, finishReason]).toEqual([0, 'length']);
    expect(d.worker.stats().reads).toMatchObject({ ok: 0, open: 0 });
    expect(d.connector.stats()).toMatchObject({ loads: 1, lost: 1 });
    await world.rest();
  });

  it('behind the begin of a copy costs what `loadFailurePolicy` says', async () => {
    pair();
    const params = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    await world.stalledTurns(20);
    expect(d.worker.stats().reads.open).toBe(1);
    for (let i = 0; i < 3; i++) {
      world.time += LEASE_MS / 2;
      await p.step();
    }
    await expect(world.ended(stream)).rejects.toThrow('its KV could not be loaded');
    await world.rest();
  });
});

describe('leaseMs', () => {
  it('that is not less than deadlines.reclaim is refused', () => {
    const withLease = (leaseMs: number, reclaim: number) => () =>
      world.add(`${leaseMs} ${reclaim}`, {
        connector: { leaseMs },
        engine: { deadlines: { reclaim } },
      });
    expect(withLease(900, 900)).toThrow('leaseMs must be less than deadlines.reclaim, which is 900, got 900');
    expect(withLease(60_000, 50_000)).toThrow('got 60000');
    for (const good of [withLease(899, 900), withLease(60_000, 0)]) good().engine.dispose();
    expect(() => world.add('default', { connector: { leaseMs: 60_000 }, engine: { deadlines: {} } })).toThrow(
      'less than deadlines.reclaim, which is 60000',
    );
  });
});
