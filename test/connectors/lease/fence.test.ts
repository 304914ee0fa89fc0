// A fence ends every copy; stalled lanes keep no block.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { SteppedLane } from '../support/stepped-lane.js';
import { LEASE_MS, type Node, SEED, World } from './world.js';

let world: World;

beforeEach(() => {
  world = new World();
});
afterEach(() => world.dispose());

const PROMPT = wordy(21, 1);

/** Makes the consumer read, with copies of one side held back, until that side has begun one. */
async function reading(sharedMemory: boolean, holds: (pair: readonly Node[]) => Node) {
  const pair = world.pair({ worker: { sharedMemory } }, { worker: { sharedMemory } });
  const node = holds(pair);
  const stream = pair[1].engine.submit({
    ...{ prompt: PROMPT, maxTokens: 5, transferParams: await world.prefill(PROMPT) },
  });
  const others = pair.filter((other) => other !== node);
  for (let turns = 0; node.lanes.numReady === 0 && turns < 500; turns++) await world.stalledTurns(1, others);
  expect(node.lanes.numReady).toBe(1);
  return { node, stream };
}

it.each([true, false])('a fence ends every copy of a reader (shared memory: %s)', async (sharedMemory) => {
  const { node, stream } = await reading(sharedMemory, ([, d]) => d);
  node.worker.fence();
  expect(node.lanes.numReady).toBe(0);
  expect(node.engine.fenceTransfers()).toBe(1);
  expect([...(await world.ended(stream)).tokens]).toEqual(unpagedText(PROMPT, 5, { seed: SEED }));
  expect(node.worker.stats().reads).toMatchObject({ ok: 0, failed: 1 });
  await world.rest();
});

it('a fence ends every copy of a producer', async () => {
  const { node, stream } = await reading(false, ([p]) => p);
  node.worker.fence();
  expect(node.lanes.numReady).toBe(0);
  node.engine.fenceTransfers();
  expect([...(await world.ended(stream)).tokens]).toEqual(unpagedText(PROMPT, 5, { seed: SEED }));
  // An engine without work asks its workers nothing: their reports come with the next request.
  await world.ended(node.engine.submit({ prompt: wordy(5, 9), maxTokens: 2 }));
  await world.rest();
});

/** Lanes whose copies never begin, as long as nobody takes a job back. */
const standing = {
  makeLane: (...parts: ConstructorParameters<typeof SteppedLane>) => new SteppedLane(...parts),
};

describe('a lane that stands still keeps no block for ever', () => {
  const prompt = PROMPT;
  const turns = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) await world.turn();
  };

  it('of a producer, whose reader leaves', async () => {
    const [p, d] = world.pair({ worker: { sharedMemory: false, ...standing } });
    const transferParams = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams });
    await turns(50);
    expect(p.worker.stats()).toMatchObject({ leases: { readings: 1 }, ways: { staged: 2 } });
    stream.abort();
    await turns(20);
    expect(p.worker.stats()).toMatchObject({ leases: { open: 0, released: 1 }, ways: { staged: 0 } });
    await world.rest();
    expect(p.engine.stats().scheduler.quarantines).toBe(0);
  });

  it('of a producer, whose reader gives up', async () => {
    const [p, d] = world.pair({ worker: { sharedMemory: false, ...standing } });
    const transferParams = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams });
    expect([...(await world.ended(stream)).tokens]).toEqual(unpagedText(prompt, 5, { seed: SEED }));
    expect(d.worker.stats().reads).toMatchObject({ ok: 0, failed: 1 });
    await world.rest();
    expect(p.engine.stats().scheduler.quarantines).toBe(0);
  });

  it.each([true, false])('of a reader, whose client leaves (shared memory: %s)', async (sharedMemory) => {
    const [p, d] = world.pair({ worker: { sharedMemory } }, { worker: { sharedMemory, ...standing } });
    const transferParams = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams });
    await turns(50);
    expect(d.worker.stats().reads.open).toBe(1);
    stream.abort();
    await turns(20);
    expect(d.worker.stats().reads.open).toBe(0);
    expect(d.engine.stats().scheduler).toMatchObject({ numDraining: 0, quarantines: 0 });
    await world.rest();
    expect(p.engine.stats().scheduler.quarantines).toBe(0);
  });

  it('nor do quarantined blocks, once a copy that had begun ends', async () => {
    const deadlines = { load: 0, reclaim: LEASE_MS + 100 };
    const [p, d] = world.pair({}, { engine: { deadlines } });
    const transferParams = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams });
    await world.stalledTurns(50, [p]);
    stream.abort();
    await world.stalledTurns(LEASE_MS + 200, [p]);
    expect(d.engine.stats().scheduler).toMatchObject({ numQuarantined: 1, quarantines: 1 });
    d.lanes.runAll();
    // As the run loop asks an engine without work.
    for (let i = 0; i < 3; i++) d.engine.step();
    expect(d.engine.stats().scheduler).toMatchObject({ numQuarantined: 0, numDraining: 0 });
    await world.rest();
  });
});
