// Refusals, and failures in workers.
import { describe, expect, it } from 'vitest';
import { checkHostMemory } from '../../../src/base/host-memory.js';
import { OffloadConnector, OffloadWorker, offload } from '../../../src/connectors/offload/index.js';
import type { Request } from '../../../src/index.js';
import { BlockArena, Verdict } from '../../../src/transfer.js';
import { wordy } from '../../executors/reference/support.js';
import { codeOf } from '../../misuse/bench.js';
import { OffloadBench } from './support.js';

const memory = { kv: BlockArena.allocate({ numBlocks: 8, bytesPerBlock: 64 }) };
/** Memory that makes its own lanes. */
const laned = { kv: { numBlocks: 8, bytesPerBlock: 64, laneTo: () => {}, laneFrom: () => {} } };
type Any = never;

describe('an offload refuses', () => {
  it.each([
    [undefined, 'the options of an OffloadConnector'],
    [{}, 'hostBlocks'],
    [{ hostBlocks: 0 }, 'hostBlocks'],
    [{ hostBlocks: 1.5 }, 'hostBlocks'],
    [{ hostBlocks: 2 ** 24 + 1 }, 'hostBlocks'],
    [{ hostBlocks: 4, numRanks: 0 }, 'numRanks'],
    [{ hostBlocks: 4, maxPinnedBlocks: 0 }, 'maxPinnedBlocks'],
    [{ hostBlocks: 4, storeEvery: 0 }, 'storeEvery'],
    [{ hostBlocks: 4, strict: 1 }, 'strict'],
    [{ hostBlocks: 4, now: 1 }, 'now'],
    [{ hostBlocks: 4, diskBudgetMs: 'x' }, 'diskBudgetMs'],
    [{ hostBlock: 4 }, 'did you mean hostBlocks'],
  ])('the connector options %j', (options, words) => {
    expect(() => new OffloadConnector(options as Any)).toThrow(words);
    expect(codeOf(() => new OffloadConnector(options as Any))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it.each([
    [null, 'the options of an OffloadWorker'],
    [{ hostBlocks: 4 }, 'memory'],
    [{ memory: {}, hostBlocks: 4 }, 'memory'],
    [{ memory }, 'hostBlocks'],
    [{ memory, hostBlocks: 4, makeLane: 1 }, 'makeLane'],
    [{ memory, hostBlocks: 4, rank: -1 }, 'rank'],
    [{ memory: laned, hostBlocks: 4, makeLane: () => {} }, 'makeLane'],
    [{ memory: { kv: { ...laned.kv, laneFrom: 1 } }, hostBlocks: 4 }, 'memory'],
    [{ memory: { ...laned, adopt: 1 }, hostBlocks: 4 }, 'memory'],
    [{ memory, hostBlocks: 4, disk: 1 }, 'disk'],
    [{ memory, hostBlocks: 4, lane: 1 }, '"lane"'],
  ])('the worker options %#', (options, words) => {
    expect(() => new OffloadWorker(options as Any)).toThrow(words);
    expect(codeOf(() => new OffloadWorker(options as Any))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it.each([
    [{ memory }, 'hostBlocks'],
    [{ memory: [], hostBlocks: 4 }, 'memory'],
    [{ memory, hostBlocks: 4, hostBytes: 640 }, 'hostBlocks'],
    [{ memory, hostBytes: 63 }, 'hostBytes'],
    [{ memory, hostBytes: Number.NaN }, 'hostBytes'],
    [{ memory, hostBlocks: 4, disk: null }, 'disk'],
  ])('the options of both sides %#', (options, words) => {
    expect(() => offload(options as Any)).toThrow(words);
    expect(codeOf(() => offload(options as Any))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('a tier that the machine has no memory for, and says how much there is', () => {
    const large = { kv: BlockArena.allocate({ numBlocks: 1, bytesPerBlock: 2 ** 26 }) };
    for (const make of [
      () => new OffloadWorker({ memory: large, hostBlocks: 2 ** 20 }),
      () => offload({ memory: [large, large], hostBytes: 2 ** 46 }),
    ]) {
      expect(codeOf(make)).toBe('ERR_BLOCKSTEP_NO_MEMORY');
      expect(make).toThrow(/of host memory, and .* are available/);
    }
    // All ranks count together, and a size that just fits is accepted.
    expect(() => checkHostMemory('hostBlocks', 4, 100, 99)).toThrow(
      'takes 100 bytes of host memory, and 99 bytes are available',
    );
    expect(() => checkHostMemory('hostBlocks', 4, 100, 100)).not.toThrow();
    large.kv.dispose();
  });
});

describe('sizes', () => {
  it('in bytes are of all ranks together', () => {
    const { connector, workers } = offload({ memory: [memory, memory], hostBytes: 64 * 2 * 5 + 64 });
    expect(connector.stats().host.capacityBlocks).toBe(5);
    expect(workers.map((worker) => worker.stats().hostBytes)).toEqual([320, 320]);
    for (const worker of workers) worker.shutdown();
  });

  it('show in the stats as soon as the workers have said them', async () => {
    using bench = new OffloadBench({ numRanks: 2 });
    await bench.serve({ prompt: wordy(16, 1), maxTokens: 2 });
    const { host } = bench.connector.stats();
    // 4 tokens of 32 bytes on each of two ranks.
    expect([host.blocks, host.bytes]).toEqual([4, 4 * 4 * 32 * 2]);
  });
});

describe('a worker', () => {
  it('with another number of places does nothing, fails what it is told, and says why', async () => {
    const wrong: OffloadWorker[] = [];
    using bench = new OffloadBench({
      wrapWorker: () => {
        const worker = new OffloadWorker({ memory, hostBlocks: 3 });
        wrong.push(worker);
        return worker;
      },
    });
    const { finishReason } = await bench.serve({ prompt: wordy(16, 1), maxTokens: 2 });
    expect(finishReason).toBe('length');
    expect(bench.connector.stats().host).toMatchObject({ blocks: 0, stores: { inFlight: 0 } });
    expect(wrong[0].stats()).toMatchObject({
      pending: 0,
      lastError: 'the connector has 200 hostBlocks, this worker 3',
    });
    expect(bench.leftovers()).toEqual([]);
  });

  it('reports a copy that cannot begin as failed, and goes on', () => {
    const worker = new OffloadWorker({ memory, hostBlocks: 4 });
    const copy = (job: number, blocks: number[], places: number[]) => ({
      job,
      blocks: Int32Array.from(blocks),
      places: Int32Array.from(places),
    });
    const orders = {
      hostBlocks: 4,
      stores: [copy(1, [99], [0]), copy(2, [1], [1])],
      loads: [{ ...copy(1, [2], [-1]), handle: 7 }],
    };
    worker.startLoads(orders, { step: 3, notBefore: -1 });
    const stores: number[] = [];
    const loads: number[] = [];
    for (let i = 0; stores.length < 4 && i < 1e6; i++) {
      const output = worker.getFinished([]);
      stores.push(...(output?.metadata?.stores ?? []));
      loads.push(...(output?.metadata?.loads ?? []));
      if (loads.length > 0 && i === 0) expect(output?.failedReceiving).toEqual([{ handle: 7, step: 3 }]);
    }
    expect(stores.slice(0, 2)).toEqual([1, Verdict.failed]);
    expect(stores.slice(2)).toEqual([2, Verdict.ok]);
    expect(loads).toEqual([1, Verdict.failed]);
    worker.shutdown();
  });

  it('whose KV memory does not take a load has not loaded it', async () => {
    using bench = new OffloadBench({ engine: { loadFailurePolicy: 'recompute' } });
    const input = { prompt: wordy(16, 1), maxTokens: 2 };
    const { tokens } = await bench.serve(input);
    bench.engine.resetPrefixCache();
    const [rank] = bench.executor.ranks;
    const { adopt } = rank;
    rank.adopt = () => {
      throw new Error('no');
    };
    expect([...(await bench.serve(input)).tokens]).toEqual([...tokens]);
    rank.adopt = adopt;
    expect(bench.connector.stats().host.loads.failed).toBe(1);
    expect(bench.leftovers()).toEqual([]);
  });
});

describe('reports that no worker would send', () => {
  it('are counted, change nothing, and are thrown in strict mode', async () => {
    using bench = new OffloadBench({ offload: { strict: false } });
    await bench.serve({ prompt: wordy(16, 1), maxTokens: 2 });
    const before = bench.connector.stats();
    const say = (metadata: object) =>
      bench.connector.updateConnectorOutput({ workerMetadata: [{ rank: 0, metadata }] });
    say({
      stores: [1, Verdict.ok],
      loads: [9, Verdict.ok],
      disk: { ended: [{ job: 1, good: Uint8Array.of(1) }] },
    });
    const { anomalies, ...after } = bench.connector.stats();
    expect(anomalies).toEqual({ 'duplicate-completion': 1, 'unknown-completion': 1 });
    expect({ ...after, anomalies: {} }).toEqual(before);
    using strict = new OffloadBench();
    expect(
      codeOf(() =>
        strict.connector.updateConnectorOutput({
          workerMetadata: [{ rank: 5, metadata: { stores: [4, 1] } }],
        }),
      ),
    ).toBe('ERR_BLOCKSTEP_ANOMALY');
  });

  it('a request whose content is gone when it is admitted fails its load, and is computed', async () => {
    using bench = new OffloadBench({
      engine: { loadFailurePolicy: 'recompute' },
      // The tier forgets everything between its answer and the admission.
      wrap: (connector) => {
        const wrapped = Object.create(connector) as typeof connector;
        const names = [
          'bind',
          'bindPins',
          'onNewRequest',
          'buildMetadata',
          'updateConnectorOutput',
          'requestFinished',
          'hasPendingWork',
          'resetCache',
          'getNumNewMatchedTokens',
        ] as const;
        for (const name of names)
          (wrapped as unknown as Record<string, unknown>)[name] = (connector[name] as () => unknown).bind(
            connector,
          );
        wrapped.updateStateAfterAlloc = (request: Request, blocks, count) => {
          if (count > 0) connector.resetCache();
          connector.updateStateAfterAlloc(request, blocks, count);
        };
        return wrapped;
      },
    });
    const input = { prompt: wordy(16, 1), maxTokens: 2 };
    const { tokens } = await bench.serve(input);
    bench.engine.resetPrefixCache();
    expect([...(await bench.serve(input)).tokens]).toEqual([...tokens]);
    expect(bench.connector.stats().host.loads.failed).toBe(1);
    expect(bench.executor.faults).toEqual([]);
    expect(bench.leftovers()).toEqual([]);
  });
});
