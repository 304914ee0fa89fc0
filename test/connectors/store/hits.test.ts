// Lost, damaged or refused values are stored again; a lookup has its budget.
import { expect, it, onTestFinished } from 'vitest';
import { MemoryStore } from '../../../examples/memory-store.js';
import { type BlockStore, Outcome } from '../../../src/connectors/store/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { PATIENCE_MS, pause } from '../../support/waiting.js';
import { turns } from './support/drive.js';
import { BLOCK, serve, TOKENS } from './support/life.js';

const PROMPT = wordy(6 * BLOCK + 1, 5);
const TEXT = unpagedText(PROMPT, TOKENS, { seed: 3 });
/** Blocks that a request fills whose prompt this is. The last token is never computed. */
const NUM_BLOCKS = Math.floor((PROMPT.length + TOKENS - 1) / BLOCK);

/** An engine of two ranks over a store in memory, whose methods may be others, in virtual time. */
function over(changes: (kept: MemoryStore) => Partial<BlockStore> = () => ({}), lookupBudgetMs = 50) {
  const kept = new MemoryStore(2 ** 24);
  const clock = { now: 0 };
  const store: BlockStore = {
    has: (keys) => kept.has(keys),
    get: (keys, visit) => kept.get(keys, visit),
    put: (keys, values) => {
      for (const key of keys) stored.add(key);
      return kept.put(keys, values);
    },
    remove: (keys) => kept.remove(keys),
    close: () => kept.close(),
    ...changes(kept),
  };
  /** Keys of all values that were stored. */
  const stored = new Set<string>();
  const served = serve({
    ...{ store: { open: () => Promise.resolve(store) }, numRanks: 2, lookupBudgetMs, timeoutMs: 100 },
    now: () => clock.now,
  });
  const { engine, workers, connector } = served;
  onTestFinished(() => engine.dispose());
  const round = async (): Promise<void> => {
    engine.step();
    await turns(2);
  };
  /** Goes on until nothing is left to do. Threads copy, and a busy machine may leave them waiting. */
  const rest = async (): Promise<void> => {
    const isBusy = (): boolean =>
      engine.hasWork() || workers.some((worker) => worker.stats().stagingBlocksInUse > 0);
    const end = Date.now() + PATIENCE_MS;
    for (let rounds = 0; isBusy(); rounds++) {
      if (Date.now() > end) throw new Error(`still at work: ${JSON.stringify(engine.stats().scheduler)}`);
      await round();
      if (rounds > 100) await pause();
    }
  };
  /**
   * Submits the prompt, whose answer must be right, until all blocks are stored. @returns tokens
   * that were cached
   */
  const ask = async (): Promise<number> => {
    // Only the store may have it.
    expect(engine.resetPrefixCache()).toMatchObject({ local: true });
    const stream = engine.submit({ prompt: PROMPT, maxTokens: TOKENS });
    await rest();
    const { tokens, numCachedTokens } = await stream.result();
    expect([...tokens]).toEqual(TEXT);
    return numCachedTokens;
  };
  return { kept, clock, stored, ask, round, rest, engine, connector };
}

/** How many of these the store has. */
async function numThere(kept: MemoryStore, keys: Iterable<string>): Promise<number> {
  return (await kept.has([...keys])).filter((outcome) => outcome === Outcome.done).length;
}

it('what was stored is found', async () => {
  const { kept, stored, ask } = over();
  expect(await ask()).toBe(0);
  expect(stored.size).toBe(2 * NUM_BLOCKS);
  expect(await numThere(kept, stored)).toBe(2 * NUM_BLOCKS);
  expect(await ask()).toBe(6 * BLOCK);
});

it('what the store did not take is stored when it is computed again', async () => {
  let outcome: Outcome = Outcome.full;
  const keys = new Set<string>();
  const { kept, clock, ask } = over((store) => ({
    put: (some, values) => {
      for (const key of some) keys.add(key);
      if (outcome === Outcome.done) return store.put(some, values);
      return Promise.resolve(new Uint8Array(some.length).fill(outcome));
    },
  }));
  for (const bad of [Outcome.full, Outcome.failed]) {
    outcome = bad;
    expect(await ask()).toBe(0);
    clock.now += 10_000;
  }
  outcome = Outcome.done;
  expect(await ask()).toBe(0);
  expect(await numThere(kept, keys)).toBe(2 * NUM_BLOCKS);
  expect(await ask()).toBe(6 * BLOCK);
});

it('what the store has lost is stored when it is computed again, and all of it', async () => {
  const { kept, stored, ask } = over();
  await ask();
  await kept.remove([...stored]);
  expect(await ask()).toBe(0);
  // No lookup has asked for the blocks of the answer.
  expect(await numThere(kept, stored)).toBeGreaterThanOrEqual(2 * 6);
  expect(await ask()).toBe(6 * BLOCK);
});

it('what one rank has lost is offered to nobody', async () => {
  const { kept, stored, ask, connector } = over();
  await ask();
  await kept.remove([...stored].filter((key) => key.includes(':0:1:')));
  expect(await ask()).toBe(0);
  expect(connector.stats().missingBlocks).toBe(0);
  expect(await ask()).toBe(6 * BLOCK);
});

it('what cannot be used on one rank is stored when it is computed again', async () => {
  const { kept, stored, ask, connector } = over();
  await ask();
  // Of two blocks the part of rank 0.
  const bad = [...stored].filter((key) => key.includes(':0:0:')).slice(2, 4);
  await kept.put(
    bad,
    bad.map(() => new Uint8Array(3)),
  );
  await ask();
  expect(connector.stats().missingBlocks).toBeGreaterThan(0);
  let numWhole = 0;
  await kept.get(bad, (_, value) => {
    numWhole += (value?.length ?? 0) > 3 ? 1 : 0;
  });
  expect(numWhole).toBe(2);
  expect(await ask()).toBe(6 * BLOCK);
});

it('a store that does not say what it has costs a request its budget, and no more', async () => {
  const { clock, round, rest, engine, connector } = over(() => ({ has: () => new Promise(() => {}) }));
  await turns();
  const stream = engine.submit({ prompt: PROMPT, maxTokens: TOKENS });
  for (clock.now = 0; clock.now < 50; clock.now += 7) await round();
  clock.now = 49;
  for (let i = 0; i < 5; i++) await round();
  expect(engine.stats().scheduler).toMatchObject({ numRunning: 0, numSkipped: 1 });
  expect(connector.stats()).toMatchObject({ openLookups: 1, lateLookups: 0 });
  clock.now = 50;
  await rest();
  expect([...(await stream.result()).tokens]).toEqual(TEXT);
  expect(connector.stats()).toMatchObject({ openLookups: 0, lateLookups: 1 });
});
