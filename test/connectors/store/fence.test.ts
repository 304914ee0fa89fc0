// After a fence nothing touches the KV memory, and the caches can be reset.
import { expect, it, onTestFinished } from 'vitest';
import { MemoryStore } from '../../../examples/memory-store.js';
import { type BlockStore, StoreWorker } from '../../../src/connectors/store/index.js';
import { BlockArena, Verdict } from '../../../src/transfer.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { PATIENCE_MS, until } from '../../support/waiting.js';
import { SteppedLane } from '../support/stepped-lane.js';
import { turns } from './support/drive.js';
import { BLOCK, serve, TOKENS } from './support/life.js';

it('what the store answers after a fence is written to no block, and the caches can be reset at once', async () => {
  const kept = new MemoryStore(2 ** 24);
  let isAsked = false;
  let answer = (): void => {};
  const gate = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const store: BlockStore = {
    has: (keys) => kept.has(keys),
    get: async (keys, visit) => {
      isAsked = true;
      await gate;
      return kept.get(keys, visit);
    },
    put: (keys, values) => kept.put(keys, values),
    remove: (keys) => kept.remove(keys),
    close: () => kept.close(),
  };
  const { engine, workers, executors, connector } = serve({ store: { open: () => Promise.resolve(store) } });
  onTestFinished(() => engine.dispose());
  const [worker] = workers;
  const prompt = wordy(6 * BLOCK + 1, 5);
  const step = async (): Promise<void> => {
    engine.step();
    await turns(2);
  };
  const goOn = async (isOver: () => boolean, what: string): Promise<void> => {
    const end = Date.now() + PATIENCE_MS;
    while (!isOver()) {
      if (Date.now() > end) throw new Error(`${what} did not come`);
      await step();
    }
  };
  const first = engine.submit({ prompt, maxTokens: TOKENS });
  await goOn(() => !engine.hasWork() && worker.stats().stagingBlocksInUse === 0, 'the first text');
  expect([...(await first.result()).tokens]).toEqual(unpagedText(prompt, TOKENS, { seed: 3 }));
  engine.resetPrefixCache();

  const aborted = engine.submit({ prompt, maxTokens: TOKENS });
  await goOn(() => isAsked, 'the load');
  aborted.abort();
  await step();
  await step();
  worker.fence();
  expect(engine.fenceTransfers()).toBe(1);
  expect(engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true, connector: true });
  // Others get the blocks, and then the answer comes.
  const others = [1, 2, 3].map((seed) => engine.submit({ prompt: wordy(30, 10 + seed), maxTokens: TOKENS }));
  await step();
  answer();
  await goOn(() => worker.stats().stagingBlocksInUse === 0 && !engine.hasWork(), 'the end');
  for (const [i, { tokens }] of (await Promise.all(others.map((each) => each.result()))).entries())
    expect([...tokens]).toEqual(unpagedText(wordy(30, 11 + i), TOKENS, { seed: 3 }));
  expect(executors[0].faults).toEqual([]);
  expect(worker.stats().loads).toBe(0);
  expect(connector.stats()).toMatchObject({ openLookups: 0 });
});

/** A worker over eight blocks whose lanes stand still. @param numPlaces blocks that its staging has room for */
function stepped(numPlaces: number): { worker: StoreWorker; lanes: SteppedLane[] } {
  const kept = new MemoryStore(2 ** 24);
  const kv = BlockArena.allocate({ numBlocks: 8, bytesPerBlock: 64 });
  const lanes: SteppedLane[] = [];
  const worker = new StoreWorker({
    ...{ memory: { kv }, store: { open: () => Promise.resolve(kept) }, stagingBytes: numPlaces * 64 },
    makeLane: (...parts) => {
      lanes.push(new SteppedLane(...parts));
      return lanes[lanes.length - 1];
    },
  });
  onTestFinished(() => {
    worker.shutdown();
    kv.dispose();
  });
  return { worker, lanes };
}

it('the read of a request that has ended ends at once in a lane that stands still', async () => {
  const { worker, lanes } = stepped(16);
  const isIdle = () => worker.stats().stagingBlocksInUse === 0;
  const settled = { step: 1, notBefore: 0 };
  const hashes = [1n, 2n, 3n];
  const orders = { space: 's', bytesPerBlock: 64, loads: [], store: null };
  worker.startLoads({ ...orders, store: { job: 1, hashes, blocks: Int32Array.of(0, 1, 2) } }, settled);
  await until(() => lanes.some((lane) => lane.next()), 'the copy of what is stored');
  await until(() => worker.getFinished([]) === null && isIdle(), 'the end of the store');
  const blocks = [Int32Array.of(4, 5, 6), Int32Array.of(1, 2, 3)];
  const loads = blocks.map((own, i) => ({ job: 2 + i, handle: 7 + i, hashes, blocks: own }));
  worker.onStepSettled(0);
  worker.startLoads({ ...orders, loads }, settled);
  await until(() => {
    expect(worker.getFinished([])).toBeNull();
    return lanes[0].numReady === 2;
  }, 'the copies of what was read');
  // One load has ended, and the other one goes on.
  const { finishedReceiving, metadata } = worker.getFinished([7, 99]) ?? {};
  expect(finishedReceiving).toEqual([{ handle: 7, step: 1 }]);
  expect(metadata?.loaded).toEqual([{ job: 2, numGood: 0 }]);
  expect(lanes[0].numReady).toBe(1);
  lanes[0].next();
  expect(worker.getFinished([])?.metadata?.loaded).toEqual([{ job: 3, numGood: 3 }]);
  await until(isIdle, 'the places');
});

it.each([
  [1, 0],
  [2, 2],
])('a copy that fails for part %i of a read leaves %i good blocks', async (failing, numGood) => {
  // There is room for two blocks, so three are read in two parts.
  const { worker, lanes } = stepped(2);
  const settled = { step: 1, notBefore: 0 };
  const hashes = [1n, 2n, 3n];
  const orders = { space: 's', bytesPerBlock: 64, loads: [], store: null };
  let isStored = false;
  worker.startLoads({ ...orders, store: { job: 1, hashes, blocks: Int32Array.of(0, 1, 2) } }, settled);
  await until(() => {
    lanes.some((lane) => lane.next());
    isStored ||= worker.getFinished([]) !== null;
    return isStored && worker.stats().stagingBlocksInUse === 0;
  }, 'the end of the store');
  worker.onStepSettled(0);
  worker.startLoads(
    { ...orders, loads: [{ job: 2, handle: 7, hashes, blocks: Int32Array.of(4, 5, 6) }] },
    settled,
  );
  let ended: ReturnType<typeof worker.getFinished> = null;
  let numParts = 0;
  await until(() => {
    const [loads] = lanes;
    if (loads.numReady > 0) loads.next(++numParts === failing ? Verdict.failed : Verdict.ok);
    ended = worker.getFinished([]);
    return ended !== null;
  }, 'the end of the read');
  expect(numParts).toBe(failing);
  expect(ended).toMatchObject({ metadata: { loaded: [{ job: 2, numGood }] } });
});

it('what waits for a place when a fence comes is read no more, and every copy ends', async () => {
  const { worker, lanes } = stepped(4);
  const orders = (job: number, blocks: readonly number[]) => ({
    ...{ space: 's', bytesPerBlock: 64, loads: [] },
    store: { job, hashes: blocks.map(BigInt), blocks: Int32Array.from(blocks) },
  });
  const settled = { step: 1, notBefore: 0 };
  worker.startLoads(orders(1, [0, 1, 2, 3, 4, 5]), settled);
  worker.startLoads(orders(2, [6, 7]), settled);
  await until(() => lanes.some(({ numReady }) => numReady > 0), 'the first copy');
  worker.fence();
  const ended = worker.getFinished([])?.metadata?.copied.toSorted((a, b) => a.job - b.job);
  expect(ended?.map(({ job }) => job)).toEqual([1, 2]);
  expect(ended?.every(({ verdict }) => verdict !== Verdict.ok)).toBe(true);
  worker.getFinished([]);
  expect(lanes.map(({ numReady }) => numReady)).toEqual([0, 0]);
  expect(worker.stats().stagingBlocksInUse).toBe(0);
  // The worker goes on with later jobs.
  worker.startLoads(orders(3, [0]), settled);
  await until(() => lanes.some((lane) => lane.next()), 'a copy after it');
  expect(worker.getFinished([])?.metadata?.copied).toEqual([{ job: 3, verdict: Verdict.ok }]);
});
