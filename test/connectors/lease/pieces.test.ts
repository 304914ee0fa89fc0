// Reads in pieces that wait for a place, on either side.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { SEED, World } from './world.js';

let world: World;

beforeEach(() => {
  world = new World();
});
afterEach(() => world.dispose());

const PROMPTS = [1, 2].map((seed) => wordy(21, seed));

/**
 * Two engines that hand blocks over by messages; each has this many bytes for messages on their
 * way.
 */
function pair(producerBytes: number, consumerBytes: number) {
  const by = (stagingBytes: number) => ({ worker: { sharedMemory: false, pieceBytes: 256, stagingBytes } });
  return world.pair(by(producerBytes), by(consumerBytes));
}

/** Has all prompts computed by the first engine, and submits them to the second one. */
async function handOver() {
  const [, d] = world.nodes;
  const params: Readonly<Record<string, unknown>>[] = [];
  for (const prompt of PROMPTS) params.push(await world.prefill(prompt));
  return PROMPTS.map((prompt, i) => d.engine.submit({ prompt, maxTokens: 5, transferParams: params[i] }));
}

describe('a lease that is read in pieces', () => {
  it('is not given up while its reader has no place for them', async () => {
    const [p, d] = pair(512, 256);
    const streams = await handOver();
    await world.until(() => d.worker.stats().reads.open === 2, 'both are read');
    // Longer than a lease lasts, and than a peer may be silent: the copies of the first read keep the places.
    await world.stalledTurns(800, [p]);
    for (const [i, stream] of streams.entries())
      expect([...(await world.ended(stream)).tokens]).toEqual(unpagedText(PROMPTS[i], 5, { seed: SEED }));
    expect(d.worker.stats().reads).toMatchObject({ ok: 2, failed: 0, refused: 0 });
    await world.rest();
  });

  it('has each piece sent once, however often it was asked for while it waited', async () => {
    const [p, d] = pair(256, 512);
    const streams = await handOver();
    await world.until(() => p.worker.stats().leases.readings === 2, 'both are read');
    await world.stalledTurns(250, [d]);
    for (const stream of streams) await world.ended(stream);
    expect(d.worker.stats().ignored.late).toBe(0);
    expect(d.worker.stats().reads).toMatchObject({ ok: 2, failed: 0, refused: 0 });
    await world.rest();
  });
});
