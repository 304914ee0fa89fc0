// Engines with KV cache groups that share a store, alone and behind an offload, from end to end.
import { describe, expect, it, onTestFinished } from 'vitest';
import { MemoryStore } from '../../examples/memory-store.js';
import { MultiConnector, MultiWorker } from '../../src/connectors/multi/index.js';
import { offload } from '../../src/connectors/offload/index.js';
import { type BlockStore, StoreConnector, StoreWorker } from '../../src/connectors/store/index.js';
import { Engine, type KvGroupOptions, ReferenceExecutor } from '../../src/index.js';
import { thinned } from '../support/share.js';
import { unpagedText, wordy } from '../support/unpaged-text.js';
import { pause } from '../support/waiting.js';

/** Engines with KV cache groups that share a store, alone and behind an offload, from end to end. */

type Groups = readonly KvGroupOptions[];

const FULL: KvGroupOptions = { type: 'full' };
const STATE: KvGroupOptions = { type: 'mamba', mode: 'all' };
const SHAPES: Readonly<Record<string, Groups>> = {
  states: [FULL, STATE],
  'states alone': [STATE],
  'states and a window': [{ type: 'sliding', window: 5 }, STATE, FULL],
  windows: [
    { type: 'full', blockSize: 16 },
    { type: 'sliding', blockSize: 4, window: 11 },
  ],
};
const PROMPT = wordy(50, 1);
const TOKENS = 6;

/** A store in memory. @param loses whether a value that was found is gone when it is to be loaded */
function memoryStore(loses: (index: number, count: number) => boolean = () => false) {
  const kept = new MemoryStore(2 ** 24);
  const store: BlockStore = {
    has: (keys) => kept.has(keys),
    get: (keys, visit) => kept.get(keys, (i, value) => visit(i, loses(i, keys.length) ? null : value)),
    put: (keys, values) => kept.put(keys, values),
    remove: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  return { open: () => Promise.resolve(store) };
}

function serve(kvGroups: Groups, store: { open: () => Promise<BlockStore> }, withOffload: boolean) {
  const sizes = {
    ...{ numBlocks: 90, blockSize: 4, maxNumSeqs: 4, maxNumBatchedTokens: 20, maxModelLen: 64 },
    ...{ kvGroups: [...kvGroups] },
  };
  const executor = new ReferenceExecutor({ ...sizes, seed: 3 });
  const work = { numTokens: 0 };
  const execute = executor.execute.bind(executor);
  executor.execute = (plan, tables) => {
    work.numTokens += plan.totalTokens;
    return execute(plan, tables);
  };
  const { bytesPerBlock } = executor.kv;
  const format = { model: 'm', layout: 'reference', dtype: 'words', bytesPerBlock };
  const far = new StoreConnector({ store, format, lookupBudgetMs: 5000, storeEvery: 1 });
  const farWorker = new StoreWorker({ memory: executor, store });
  const near = withOffload ? offload({ memory: executor, hostBlocks: 200, storeEvery: 1 }) : null;
  const sides =
    near === null
      ? { connector: far, workers: [farWorker] }
      : {
          connector: new MultiConnector({ children: [near.connector, far], numRanks: 1 }),
          workers: [new MultiWorker({ children: [near.workers[0], farWorker] })],
        };
  const engine = new Engine({
    ...{ ...sizes, executor, hashSeed: 7n, strict: true, loadFailurePolicy: 'recompute' },
    ...sides,
  });
  onTestFinished(() => engine.dispose());
  const ask = async (prompt: Int32Array): Promise<number> => {
    const stream = engine.submit({ prompt, maxTokens: TOKENS });
    for (let i = 0; engine.hasWork() && i < 5000; i++) {
      engine.step();
      await pause(i < 50 ? 0 : 1);
    }
    const { tokens, numCachedTokens } = await stream.result();
    expect([...tokens]).toEqual(unpagedText(prompt, TOKENS, { seed: 3 }));
    expect(executor.faults).toEqual([]);
    // A match of all tokens, where it is refused, would cost the hits that a shorter one has.
    expect(engine.stats().scheduler.refusedMatches).toBe(0);
    engine.verify();
    return numCachedTokens;
  };
  return { engine, ask, far, near, work };
}

describe.each(thinned(Object.entries(SHAPES), 2))('two engines over a store: %s', (_, groups) => {
  const alignment = Math.max(...groups.map(({ blockSize = 4 }) => blockSize));
  const most = alignment * Math.floor((PROMPT.length - 1) / alignment);

  it.each([false, true])(
    'the second one loads what the first one computed (offload in front: %s)',
    async (both) => {
      const store = memoryStore();
      await serve(groups, store, both).ask(PROMPT);
      const second = serve(groups, store, both);
      expect(await second.ask(PROMPT)).toBe(most);
      expect(second.far.stats().loadedBlocks).toBeGreaterThan(0);
      if (!both) return;
      // Blocks that came from the store are in the offload too.
      second.engine.resetPrefixCache();
      const { loadedBlocks } = second.far.stats();
      expect(await second.ask(PROMPT)).toBe(most);
      expect(second.far.stats().loadedBlocks).toBe(loadedBlocks);
      expect(second.near?.connector.stats().host.hits).toBe(1);
    },
  );

  it('a value that is lost is computed, from the last tokens that are there', async () => {
    let isLossy = false;
    // The last block of a load: of states the one that the request would resume behind.
    const store = memoryStore((i, count) => isLossy && i === count - 1);
    await serve(groups, store, false).ask(PROMPT);
    const second = serve(groups, store, false);
    // 16 tokens are in the local cache.
    await second.ask(PROMPT.slice(0, 17));
    isLossy = true;
    const before = second.work.numTokens;
    await second.ask(PROMPT);
    expect(second.work.numTokens - before).toBe(PROMPT.length - 16 + TOKENS - 1);
    expect(second.engine.stats().scheduler.failedLoads).toBeGreaterThan(0);
    isLossy = false;
    // The blocks that were computed instead are correct, and the next request finds them.
    expect(await second.ask(PROMPT)).toBe(most);
  });
});

it.each(['windows', 'states'])('a prompt of whole blocks hits all but the last ones: %s', async (shape) => {
  const groups = SHAPES[shape] as Groups;
  const alignment = Math.max(...groups.map(({ blockSize = 4 }) => blockSize));
  const whole = PROMPT.slice(0, 2 * alignment);
  const store = memoryStore();
  await serve(groups, store, true).ask(whole);
  const second = serve(groups, store, true);
  expect(await second.ask(whole)).toBe(alignment);
  second.engine.resetPrefixCache();
  expect(await second.ask(whole)).toBe(alignment);
});

describe('a store that is down', () => {
  it('costs hits, and nobody waits for it', async () => {
    const store = { open: () => Promise.reject(new Error('planted')) };
    const engine = serve(SHAPES['windows'] as Groups, store, false);
    expect([await engine.ask(PROMPT), await engine.ask(wordy(50, 2))]).toEqual([0, 0]);
    expect(engine.far.stats().store.lastError).toContain('planted');
  });
});

describe('states that cannot be shared', () => {
  it('are not stored, and the engine computes', async () => {
    const store = memoryStore();
    const groups: Groups = [FULL, { type: 'mamba', mode: 'align' }];
    await serve(groups, store, true).ask(PROMPT);
    const second = serve(groups, store, true);
    expect(await second.ask(PROMPT)).toBe(0);
    expect(second.engine.stats().scheduler.refusedMatches).toBe(0);
  });
});
