// Loads, waits, failed loads; resets.
import { describe, expect, it } from 'vitest';
import type { RequestStream } from '../../../src/index.js';
import { Verdict } from '../../../src/transfer.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { type BenchOptions, OffloadBench, SEED } from './support.js';

const PROMPT = wordy(30, 1);
const TEXT = unpagedText(PROMPT, 4, { seed: SEED });
const BLOCKS = 7;
const INPUT = { prompt: PROMPT, maxTokens: 4 };

/** A bench whose tier has the prompt, and whose pool has nothing. */
async function stored(options: BenchOptions = {}): Promise<OffloadBench> {
  const bench = new OffloadBench(options);
  await bench.serve(INPUT);
  expect(bench.engine.resetPrefixCache().ok).toBe(true);
  expect(bench.connector.stats().host.blocks).toBeGreaterThanOrEqual(BLOCKS);
  return bench;
}

async function expectText(stream: RequestStream): Promise<void> {
  expect([...(await stream.result()).tokens]).toEqual(TEXT);
}

/** Rounds without any copy. */
async function rounds(bench: OffloadBench, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    bench.engine.step();
    await bench.compute();
  }
}

/** The lanes that load. */
const loading = (bench: OffloadBench) => bench.lanes.filter((_, i) => i % 2 === 0);

describe('a load of an offload', () => {
  it.each([
    ['one group', undefined],
    ['several groups', [{ type: 'full' }, { type: 'sliding', window: 6 }]],
  ] as const)('never brings the last token, which is computed to sample from: %s', async (_, groups) => {
    // All of the prompt is stored: its last block ends with its last token.
    const input = { prompt: wordy(32, 1), maxTokens: 1 };
    const engine = { maxNumBatchedTokens: 8, ...(groups && { kvGroups: [...groups] }) };
    using bench = new OffloadBench({ engine });
    await bench.serve(input);
    expect(bench.engine.resetPrefixCache().ok).toBe(true);
    const { numCachedTokens } = await bench.serve(input);
    expect(numCachedTokens).toBe(28);
    expect(bench.connector.stats().host.hitTokens).toBe(28);
    expect(bench.leftovers()).toEqual([]);
  });
});

describe.each([1, 2, 3] as const)('loads of an offload at depth %i', (pipelineDepth) => {
  const engine = { pipelineDepth };

  it('bring the longest run of blocks behind the local prefix, on every rank', async () => {
    using bench = await stored({ engine, numRanks: 2 });
    const stream = bench.submit(INPUT);
    await rounds(bench, 3);
    expect(bench.connector.stats().host).toMatchObject({
      hits: 1,
      hitTokens: 4 * BLOCKS,
      loads: { inFlight: 1, blocks: BLOCKS },
    });
    const [first, second] = loading(bench);
    expect(first.next()).toBe(true);
    await rounds(bench, 3);
    // The copy on one rank is not enough.
    expect([bench.engine.numRunning, bench.connector.stats().host.loads.inFlight]).toEqual([0, 1]);
    expect(second.next()).toBe(true);
    await bench.finish();
    await expectText(stream);
    expect(bench.executor.faults).toEqual([]);
    expect(bench.leftovers()).toEqual([]);
  });

  it('are made once for requests that want the same, and the others find them in the pool', async () => {
    using bench = await stored({ engine });
    const streams = [0, 1, 2].map(() => bench.submit(INPUT));
    await rounds(bench, 3);
    expect(bench.connector.stats()).toMatchObject({ waiting: 2, host: { loads: { begun: 1, inFlight: 1 } } });
    await bench.finish();
    for (const stream of streams) await expectText(stream);
    expect(bench.connector.stats().host.loads).toMatchObject({ begun: 1, blocks: BLOCKS });
    expect(bench.leftovers()).toEqual([]);
  });

  it.each(['fail', 'recompute'] as const)(
    'that fail wake whoever waits for them (%s), and leave the tier',
    async (loadFailurePolicy) => {
      using bench = await stored({ engine: { ...engine, loadFailurePolicy } });
      const streams = [0, 1].map(() => bench.submit(INPUT));
      const ends = streams.map((stream) =>
        stream.result().then(
          ({ finishReason }) => finishReason,
          () => 'error',
        ),
      );
      await rounds(bench, 3);
      loading(bench)[0].next(Verdict.failed);
      await rounds(bench, 3);
      expect(bench.connector.stats()).toMatchObject({ waiting: 0, host: { loads: { failed: 1 } } });
      await bench.finish();
      expect(await Promise.all(ends)).toEqual([loadFailurePolicy === 'fail' ? 'error' : 'length', 'length']);
      await expectText(streams[1]);
      // The request that computed the content stored it again.
      expect(bench.connector.stats().host.blocks).toBeGreaterThanOrEqual(BLOCKS);
      expect(bench.connector.stats().host.loads.begun).toBe(1);
      expect(bench.leftovers()).toEqual([]);
    },
  );

  it('that were cancelled leave the tier as it is', async () => {
    using bench = await stored({ engine: { ...engine, loadFailurePolicy: 'recompute' } });
    const before = bench.connector.stats().host.blocks;
    const stream = bench.submit(INPUT);
    await rounds(bench, 3);
    loading(bench)[0].fence();
    await rounds(bench, 1);
    expect(bench.connector.stats().host.blocks).toBe(before);
    await bench.finish();
    await expectText(stream);
    expect(bench.leftovers()).toEqual([]);
  });

  it('whose request is aborted end at once in a lane that stands still, and others load for themselves', async () => {
    using bench = await stored({ engine, offload: { hostBlocks: 9 } });
    const [first, second] = [0, 1].map(() => bench.submit(INPUT));
    await rounds(bench, 3);
    expect(bench.connector.stats()).toMatchObject({ waiting: 1, host: { loads: { begun: 1 } } });
    first.abort();
    await rounds(bench, 4);
    expect(bench.connector.stats()).toMatchObject({ waiting: 0, host: { loads: { begun: 2, inFlight: 1 } } });
    const { numDraining, outstanding } = bench.engine.stats().scheduler;
    expect([numDraining, outstanding.load.count]).toEqual([0, 1]);
    expect(bench.connector.stats().host.places.used).toBe(BLOCKS);
    // Content that is being loaded is not evicted, whatever else is stored.
    const other = bench.submit({ prompt: wordy(40, 9), maxTokens: 2 });
    await rounds(bench, 4);
    expect(bench.connector.stats().host.places.used).toBe(BLOCKS);
    await bench.finish();
    await expectText(second);
    expect((await other.result()).finishReason).toBe('length');
    expect(bench.executor.faults).toEqual([]);
    expect(bench.leftovers()).toEqual([]);
  });

  it('are waited for no longer than whoever waits lives', async () => {
    using bench = await stored({ engine });
    const [first, second] = [0, 1].map(() => bench.submit(INPUT));
    await rounds(bench, 3);
    second.abort();
    await rounds(bench, 2);
    await bench.finish();
    await expectText(first);
    expect(bench.leftovers()).toEqual([]);
  });

  it.runIf(pipelineDepth > 1)(
    'write no block before the steps are over that may still write it',
    async () => {
      const notBefore: number[] = [];
      using bench = await stored({
        engine,
        wrapWorker: (worker) => {
          const wrapped = Object.create(worker) as typeof worker;
          for (const name of ['onStepSettled', 'getFinished', 'shutdown'] as const)
            wrapped[name] = worker[name].bind(worker) as never;
          wrapped.startLoads = (orders, step) => {
            if ((orders?.loads.length ?? 0) > 0) notBefore.push(step.notBefore);
            worker.startLoads(orders, step);
          };
          return wrapped;
        },
      });
      const busy = bench.submit({ prompt: wordy(9, 5), maxTokens: 30 });
      bench.engine.step();
      const stream = bench.submit(INPUT);
      bench.engine.step();
      // A step is in flight, and the load waits for it.
      expect(bench.engine.stats().stepsInFlight).toBeGreaterThan(0);
      expect([notBefore.length, loading(bench)[0].numReady]).toEqual([1, 0]);
      await bench.compute();
      bench.engine.step();
      expect(loading(bench)[0].numReady).toBe(1);
      await bench.finish();
      expect(notBefore.length).toBe(1);
      await expectText(stream);
      expect((await busy.result()).finishReason).toBe('length');
      expect(bench.executor.faults).toEqual([]);
    },
  );
});

describe('a request whose stores are in flight', () => {
  it('may be preempted, admitted again, and load (vLLM #46014)', async () => {
    // Two requests that grow until one has to go.
    using bench = new OffloadBench({ engine: { numBlocks: 15 } });
    const streams = [1, 2].map((which) => bench.submit({ prompt: wordy(20, which), maxTokens: 20 }));
    let held = 0;
    for (let round = 0; round < 4000 && bench.engine.hasWork(); round++) {
      bench.engine.step();
      await bench.compute();
      const { numPreemptions } = bench.engine.stats().scheduler;
      // From the first preemption on, copies come late: stores are in flight when the victim is asked about.
      if (numPreemptions > 0 && bench.connector.stats().host.stores.inFlight > 0) held++;
      if (numPreemptions === 0 ? round % 6 === 5 : round % 4 === 3) bench.copyAll();
    }
    expect(held).toBeGreaterThan(0);
    for (const [i, stream] of streams.entries()) {
      expect([...(await stream.result()).tokens]).toEqual(unpagedText(wordy(20, i + 1), 20, { seed: SEED }));
    }
    expect(bench.executor.faults).toEqual([]);
    expect(bench.leftovers()).toEqual([]);
  });
});

describe('a reset', () => {
  it('is refused while blocks are copied, and empties the tier afterwards', async () => {
    using bench = await stored();
    const { connector, engine } = bench;
    const stream = bench.submit(INPUT);
    await rounds(bench, 2);
    expect(connector.resetCache()).toBe(false);
    expect(engine.resetPrefixCache({ resetConnector: true, resetRunning: true }).ok).toBe(false);
    expect(connector.stats().host.blocks).toBeGreaterThanOrEqual(BLOCKS);
    await bench.finish();
    await expectText(stream);
    expect(engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true, connector: true });
    await bench.serve(INPUT);
    expect(connector.stats().host.hits).toBe(1);
    expect(bench.leftovers()).toEqual([]);
  });
});
