import { afterEach, beforeEach, expect, it } from 'vitest';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { type Node, SEED, World } from './world.js';

let world: World;

beforeEach(() => {
  world = new World();
});
afterEach(() => world.dispose());

const PROMPT = wordy(21, 1);

/** Has the consumer read, with copies of one side held back, until that side has begun one. */
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
  // An engine without work asks its workers nothing: what they have to say comes with the next request.
  await world.ended(node.engine.submit({ prompt: wordy(5, 9), maxTokens: 2 }));
  await world.rest();
});
