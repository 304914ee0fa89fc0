// Prompts of every length over several KV cache groups: stores and hits.
import { describe, expect, it } from 'vitest';
import { OffloadConnector } from '../../../src/connectors/offload/index.js';
import type { OffloadOrders } from '../../../src/connectors/offload/tiers/orders.js';
import type { Scheduler } from '../../../src/index.js';
import type { KvGroupOptions } from '../../../src/scheduler/options/kv-groups.js';
import { Verdict } from '../../../src/transfer/verdict.js';
import { leftovers, makeScheduler, prompt } from '../../support/driver.js';

/** One step whose tokens mean nothing, with workers that copy at once. */
function step(scheduler: Scheduler): void {
  const plan = scheduler.schedule();
  const orders = plan.connectorMetadata as OffloadOrders | null;
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  const tokens = new Int32Array(counts.reduce((sum, each) => sum + each, 0)).fill(7);
  const ended = (jobs: readonly { readonly job: number }[]) => jobs.flatMap(({ job }) => [job, Verdict.ok]);
  const loads = orders?.loads ?? [];
  scheduler.update(
    plan,
    { tokens, counts },
    {
      finishedReceiving: loads.map(({ handle }) => ({ handle })),
      workerMetadata: [{ rank: 0, metadata: { stores: ended(orders?.stores ?? []), loads: ended(loads) } }],
    },
  );
}

function run(kvGroups: readonly KvGroupOptions[], length: number, maxNumBatchedTokens: number) {
  const connector = new OffloadConnector({ hostBlocks: 200, maxPinnedBlocks: 100, strict: true });
  const scheduler = makeScheduler({
    ...{ connector, kvGroups: [...kvGroups], maxNumBatchedTokens, numBlocks: 120, strict: true },
  });
  for (const id of ['a', 'b']) {
    scheduler.add({ id, prompt: prompt(length), maxTokens: 1 });
    while (scheduler.hasWork()) step(scheduler);
    expect(scheduler.resetPrefixCache().ok).toBe(true);
  }
  const { host, pinnedBlocks } = connector.stats();
  expect([pinnedBlocks, leftovers(scheduler)]).toEqual([0, []]);
  scheduler.verify();
  scheduler.dispose();
  return host;
}

const SIZES: readonly KvGroupOptions[] = [
  { type: 'full', blockSize: 16 },
  { type: 'sliding', blockSize: 4, window: 11 },
  { type: 'sliding', blockSize: 8, window: 3 },
];

describe('a prompt that another one repeats', () => {
  // Without the pins ahead (`GroupScan`) the windows of most lengths are gone when they are settled.
  it('is found up to its last whole blocks, whatever its length and its steps', () => {
    for (const budget of [64, 17]) {
      for (let length = 17; length <= 63; length++) {
        const { hits, hitTokens } = run(SIZES, length, budget);
        expect([budget, length, hits, hitTokens]).toEqual([
          budget,
          length,
          1,
          16 * Math.floor((length - 1) / 16),
        ]);
      }
    }
  });

  it('is stored without what lies left of its windows', () => {
    // The 48 tokens are 3 blocks of 16 tokens. A single step stores only the last windows: 3 blocks
    // of 4 tokens, and 1 block of 8 tokens.
    const { stores, loads } = run(SIZES, 49, 64);
    expect([stores.blocks, loads.blocks]).toEqual([3 + 3 + 1, 3 + 3 + 1]);
  });

  it('is found where states are kept at the ends of blocks', () => {
    for (const length of [9, 17, 30]) {
      const { hitTokens } = run([{ type: 'full' }, { type: 'mamba', mode: 'all' }], length, 64);
      expect(hitTokens).toBe(4 * Math.floor((length - 1) / 4));
    }
  });

  it('is not stored where nothing can be loaded', () => {
    const { stores, hits } = run([{ type: 'full' }, { type: 'mamba', mode: 'align' }], 30, 64);
    expect([stores.begun, hits]).toEqual([0, 0]);
  });
});

describe('blocks that are not stored', () => {
  it('are counted if there was no room for them, and not if nobody could need them', () => {
    const connector = new OffloadConnector({ hostBlocks: 200, maxPinnedBlocks: 1, strict: true });
    const scheduler = makeScheduler({ connector, kvGroups: [...SIZES], numBlocks: 120, strict: true });
    scheduler.add({ id: 'a', prompt: prompt(49), maxTokens: 1 });
    while (scheduler.hasWork()) step(scheduler);
    const { stores } = connector.stats().host;
    // A single step has computed the prompt: 3 blocks of 16 tokens, and the last windows.
    expect(stores.blocks + stores.skippedBlocks).toBe(3 + 3 + 1);
    scheduler.dispose();
  });
});

describe('a request that was offered blocks', () => {
  it('is forgotten when it ends before it is admitted', () => {
    const connector = new OffloadConnector({ hostBlocks: 200, maxPinnedBlocks: 100, strict: true });
    const scheduler = makeScheduler({
      ...{ connector, kvGroups: [{ type: 'full' }, { type: 'sliding', window: 6 }], maxNumBatchedTokens: 64 },
      ...{ numBlocks: 34, strict: true },
    });
    scheduler.add({ id: 'a', prompt: prompt(33), maxTokens: 1 });
    while (scheduler.hasWork()) step(scheduler);
    expect(scheduler.resetPrefixCache().ok).toBe(true);
    // Another prompt takes so much of the pool that this one has no room.
    scheduler.add({ id: 'other', prompt: prompt(60).map((token) => token + 1000), maxTokens: 2 });
    step(scheduler);
    const handle = scheduler.add({ id: 'b', prompt: prompt(50), maxTokens: 1 });
    const plan = scheduler.schedule();
    expect(connector.stats().tracked).toBe(1);
    scheduler.abort(handle);
    expect(connector.stats().tracked).toBe(0);
    scheduler.failStep(plan);
    scheduler.dispose();
  });
});
