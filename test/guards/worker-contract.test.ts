// F7, F18, F24, F26, F29, F36, F37, F43: the messages to workers, and the meaning of their silence.
import { describe, expect, it } from 'vitest';
import type { Finished, HandOver, WorkerOutput } from '../../src/connector.js';
import { Engine, type Request } from '../../src/index.js';
import { ScriptedConnector } from '../support/connector/scripted-connector.js';
import { ScriptedWorker } from '../support/connector/scripted-worker.js';
import { codeOf, prompt } from '../support/driver.js';
import { FakeExecutor, leftovers, rejection } from '../support/engine-bench.js';
import { RemoteEngine } from './remote-engine.js';

/** The calls of workers, and the meaning of their silence. */

const POLICIES = ['fail', 'recompute'] as const;

describe('F7 a load may not write before the stores that it overwrites are over', () => {
  // Pinned by: `notBefore` in Workers.begin (workers.ts).
  it('an empty plan gives blocks to a load that were given back under a step in flight', async () => {
    const scripts = { q: { ext: 8, async: true } };
    const bench = new RemoteEngine(scripts, { pipelineDepth: 2, numBlocks: 6 });
    const [worker] = bench.workers;
    const r = bench.submit({ id: 'r', prompt: prompt(13), maxTokens: 1 });
    expect(bench.engine.step().scheduledTokens).toBe(13);
    // r loses its blocks while step 0 runs, and the load of q gets them in a plan with nothing to execute.
    bench.engine.pause('new');
    bench.engine.resetPrefixCache({ resetRunning: true });
    bench.engine.abort('r');
    const q = bench.submit({ id: 'q', prompt: prompt(9, 1), maxTokens: 1 });
    bench.engine.resume();
    bench.engine.step();
    expect(worker.begun).toEqual([{ step: 1, notBefore: 1, ids: ['q'] }]);
    bench.land('q');
    await bench.finish();
    const order = worker.calls.filter((call) =>
      /startStores 0|handlePreemptions \d|onStepSettled [1-9]/.test(call),
    );
    expect(order.slice(0, 3)).toEqual(['startStores 0', `handlePreemptions ${r.handle}`, 'onStepSettled 4']);
    expect([...(await q.result()).tokens]).toEqual(bench.kv.text('q', 1));
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('F7 a store of a step in flight reads what its request had there', () => {
  // Pinned by: `dropAtEnd` (hand-over.ts), `#takesDropped` (workers.ts).
  it('a request that ends lets go what is left of a window: a step that takes it waits for the store', async () => {
    const executor = new FakeExecutor(true);
    const worker = new ScriptedWorker();
    const engine = new Engine({
      ...{ executor, connector: new ScriptedConnector({ r: { delayAbort: true } }), workers: [worker] },
      ...{ numBlocks: 5, blockSize: 4, kvGroups: [{ type: 'sliding', window: 4 }], pipelineDepth: 2 },
      ...{ maxNumSeqs: 2, maxNumBatchedTokens: 16, maxModelLen: 16, hashSeed: 7, strict: true },
    });
    const r = engine.submit({ id: 'r', prompt: prompt(15), maxTokens: 1 });
    expect(engine.step().scheduledTokens).toBe(15);
    engine.abort('r');
    // Of four blocks r keeps the last one, or the last two.
    const q = engine.submit({ id: 'q', prompt: prompt(8, 1), maxTokens: 1 });
    expect(engine.step().scheduledTokens).toBe(8);
    expect(executor.seen.map(({ step }) => step)).toEqual([0]);
    await executor.deliver();
    engine.step();
    expect(executor.seen.map(({ step }) => step)).toEqual([0, 1]);
    const order = worker.calls.filter((call) => /^(stores|loads) /.test(call));
    expect(order).toEqual(['loads 0 not before -1', 'stores 0', 'loads 1 not before 0']);
    await executor.deliver();
    worker.next.push({ finishedSending: [{ handle: r.handle }] });
    for (let i = 0; i < 5; i++) engine.step();
    expect((await q.result()).finishReason).toBe('length');
    expect(leftovers(engine)).toEqual([]);
  });
});

describe('F24 silence about a synchronous load is no success', () => {
  // Pinned by: `withVerdicts` (workers.ts), `LoadVerdicts` (load-verdicts.ts).
  const answers: [string, () => unknown][] = [
    ['throws', () => JSON.parse('{')],
    ['answers null', () => null],
    ['answers a promise', () => Promise.resolve(null)],
    ['answers a number', () => 7],
    ['answers a list that is none', () => ({ finishedReceiving: 7 })],
    ['names another request', () => ({ finishedReceiving: [{ handle: 12_345 }] })],
    ['names another child', () => ({ finishedReceiving: [{ handle: 2 ** 21, child: 1 }] })],
    ['names another step', () => ({ finishedReceiving: [{ handle: 2 ** 21, step: 7 }] })],
  ];
  for (const loadFailurePolicy of POLICIES) {
    for (const [what, answer] of answers) {
      it(`${loadFailurePolicy}: getFinished ${what} until the step was taken`, async () => {
        const bench = new RemoteEngine({ r: { ext: 8 } }, { loadFailurePolicy, ranks: 2 });
        bench.workers[1].spoiled.add('r');
        const r = bench.submit({ id: 'r' });
        expect(r.handle).toBe(2 ** 21);
        let asked = 0;
        bench.workers[1].instead = () => {
          asked++;
          return answer();
        };
        bench.engine.step();
        await bench.kv.deliver();
        bench.engine.step();
        expect(asked).toBe(2);
        bench.workers[1].instead = null;
        bench.workers[1].spoiled.clear();
        await bench.finish();
        if (loadFailurePolicy === 'fail')
          expect(await rejection(r.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
        else expect([...(await r.result()).tokens]).toEqual(bench.kv.text('r', 4));
        // The blocks that were published on top of it are gone: another client gets right text.
        const o = bench.submit({ id: 'o', prompt: prompt(9) });
        bench.kv.prompts.set('o', prompt(9));
        await bench.finish();
        expect([...(await o.result()).tokens]).toEqual(bench.kv.text('r', 4));
        expect(leftovers(bench.engine)).toEqual([]);
      });
    }
  }

  it('a report of the rank is a verdict, with its step or without, and reaches nobody as an anomaly', async () => {
    for (const isStamped of [true, false]) {
      const scripts = new ScriptedConnector({ r: { ext: 4 } });
      const worker = new ScriptedWorker();
      const executor = new FakeExecutor(true);
      const options = { numBlocks: 20, blockSize: 4, maxModelLen: 32, maxNumBatchedTokens: 32, strict: true };
      const engine = new Engine({ ...options, executor, connector: scripts, workers: [worker] });
      const { handle, result } = handleOf(engine);
      engine.step();
      worker.next.push({ finishedReceiving: [isStamped ? { handle, step: 0 } : { handle }] });
      while (engine.hasWork()) {
        await executor.deliver();
        engine.step();
      }
      expect((await result).finishReason).toBe('length');
      expect(engine.stats().scheduler.anomalies).toEqual({});
      engine.dispose();
    }
  });

  function handleOf(engine: Engine) {
    const submitted = engine.submit({ id: 'r', prompt: prompt(9), maxTokens: 3 });
    return { handle: submitted.handle, result: submitted.result() };
  }
});

describe('F18 a fence ends what has begun, and nothing else', () => {
  // Pinned by: `begunStep` (workers.ts, fence.ts).
  it('the load of a step that is kept back begins later, into blocks that are still its own', async () => {
    const scripts = { q: { ext: 8, async: true }, s: { ext: 8 } };
    const bench = new RemoteEngine(scripts, { pipelineDepth: 2, ranks: 1 });
    bench.submit({ id: 'r', prompt: prompt(9, 2), maxTokens: 4 });
    expect(bench.engine.step().scheduledTokens).toBe(9);
    const q = bench.submit({ id: 'q', prompt: prompt(9, 1), maxTokens: 1 });
    const s = bench.submit({ id: 's', prompt: prompt(9, 3), maxTokens: 1 });
    // The step reads the load of s, so it is kept back; the load of q goes with it.
    bench.engine.step();
    expect(bench.workers[0].begun).toEqual([]);
    expect(bench.engine.fenceTransfers()).toBe(0);
    expect(bench.engine.stats().scheduler.numLoading).toBe(1);
    bench.land('q');
    await bench.finish();
    bench.land('q');
    await bench.finish();
    for (const each of [q, s]) expect([...(await each.result()).tokens]).toEqual(bench.kv.text(each.id, 1));
    expect(bench.anomalies).toEqual({});
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('what a request that has just ended is to send begins with the next plan', async () => {
    const bench = new RemoteEngine({ r: { delayFree: true } }, {});
    bench.submit({ id: 'r', maxTokens: 1 });
    bench.engine.step();
    await bench.kv.deliver();
    bench.engine.step();
    expect(bench.engine.stats().scheduler.numDraining).toBe(1);
    expect(bench.engine.fenceTransfers()).toBe(0);
    expect(bench.engine.step().scheduledTokens).toBe(0);
    expect(bench.engine.fenceTransfers()).toBe(1);
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('what has begun ends, also of a request that was aborted', () => {
    const bench = new RemoteEngine({ q: { ext: 8, async: true } }, { pipelineDepth: 2 });
    const q = bench.submit({ id: 'q', maxTokens: 1 });
    bench.steps();
    q.abort();
    bench.steps();
    expect(bench.engine.stats().scheduler.numDraining).toBe(1);
    expect(bench.engine.fenceTransfers()).toBe(1);
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('F43 the ranks that report', () => {
  // Pinned by: `withRanks` (scheduler-options.ts), `parseConnector` (connector-methods.ts).
  it('are the workers, unless the connector says otherwise', () => {
    const kv = new RemoteEngine({ r: { ext: 8, async: true } }, { ranks: 2 });
    kv.engine.dispose();
    const connector = new ScriptedConnector({ r: { ext: 8, async: true } });
    Object.defineProperty(connector, 'reporters', { value: undefined });
    const workers = [new ScriptedWorker(), new ScriptedWorker()];
    const options = { numBlocks: 20, blockSize: 4, maxModelLen: 32, maxNumBatchedTokens: 32 };
    const engine = new Engine({ ...options, executor: new FakeExecutor(), connector, workers });
    const { handle } = engine.submit({ id: 'r', prompt: prompt(9), maxTokens: 2 });
    engine.step();
    workers[0].next.push({ finishedReceiving: [{ handle }] });
    engine.step();
    engine.step();
    // Rank 1 still writes.
    expect(engine.numRunning).toBe(0);
    expect(engine.scheduler.getByHandle(handle)?.status).toBe('WAITING_FOR_REMOTE_KVS');
    engine.dispose();
  });

  it.each([
    ['a rank without a worker', [[0, 1]], undefined],
    ['another number of ranks', [[0]], 3],
  ])('%s is refused', (_, reporters, numRanks) => {
    const connector = new ScriptedConnector({}, { reporters });
    const make = () =>
      new Engine({
        numBlocks: 20,
        executor: new FakeExecutor(),
        connector,
        workers: [new ScriptedWorker()],
        ...(numRanks && { numRanks }),
      });
    expect(make).toThrow(
      /reporters\[0\] must be ranks from 0 to 0, got 1|numRanks must be 1, one a worker, got 3/,
    );
  });
});

describe('what workers say to the scheduler side', () => {
  it('comes with the rank that said it, also when there is nothing else to report, and changes nothing', () => {
    const connector = new ScriptedConnector();
    const workers = [new ScriptedWorker(), new ScriptedWorker()];
    const options = { numBlocks: 20, blockSize: 4, maxModelLen: 32, maxNumBatchedTokens: 32, strict: true };
    const engine = new Engine({ ...options, executor: new FakeExecutor(), connector, workers });
    workers[0].next.push(null, { metadata: 'a' } as WorkerOutput);
    workers[1].next.push({ metadata: { jobs: [1] } } as WorkerOutput, { metadata: 'b' } as WorkerOutput);
    engine.step();
    engine.step();
    engine.step();
    expect(connector.outputs.map(({ workerMetadata }) => workerMetadata)).toEqual([
      [{ rank: 1, metadata: { jobs: [1] } }],
      [
        { rank: 0, metadata: 'a' },
        { rank: 1, metadata: 'b' },
      ],
    ]);
    engine.dispose();
  });
});

describe('F37 blocks that change hands', () => {
  // Pinned by: `takenBy` (schedule.ts), `#drainReuse` (workers.ts).
  it.each(['own', 'fence'] as const)(
    '%s: the workers are told which the step takes from the pool',
    async (protection) => {
      const bench = new RemoteEngine({ l: { ext: 8, async: true } }, { protection, numBlocks: 12 });
      const [worker] = bench.workers;
      const a = bench.submit({ id: 'a', prompt: prompt(9), maxTokens: 5 });
      bench.steps();
      const first = bench.blocks(a);
      await bench.kv.deliver();
      const b = bench.submit({ id: 'b', prompt: Int32Array.of(...prompt(8), 901, 902), maxTokens: 3 });
      const l = bench.submit({ id: 'l', prompt: prompt(9, 3), maxTokens: 1 });
      bench.steps();
      const second = [...bench.blocks(b).slice(2), ...bench.blocks(l).slice(0, 2)];
      bench.land('l');
      await bench.finish();
      expect((await l.result()).finishReason).toBe('length');
      if (protection === 'own') {
        expect(worker.taken.flat()).toEqual([]);
        return;
      }
      expect(worker.taken[0]).toEqual(first);
      expect(worker.taken[1].slice().sort()).toEqual(second.sort());
      expect(leftovers(bench.engine)).toEqual([]);
    },
  );

  it('a connector whose metadata could not be made loses no flush list', async () => {
    const bench = new RemoteEngine({}, { protection: 'fence' });
    bench.connector.throwing.add('metadata');
    const a = bench.submit({ id: 'a', maxTokens: 1 });
    await bench.finish();
    expect(bench.workers[0].taken[0].length).toBe(3);
    expect((await a.result()).finishReason).toBe('length');
    bench.connector.throwing.clear();
    bench.engine.dispose();
  });
});

// Pinned by: `Workers.owesEnds`, and `EngineState.needsPlan`.
describe('F29 the end of the last request', () => {
  it('is told with metadata, if need be by one plan more, and the engine has work until then', async () => {
    const bench = new RemoteEngine({}, {});
    bench.submit({ id: 'r', maxTokens: 1 });
    bench.engine.step();
    await bench.kv.deliver();
    bench.engine.step();
    bench.connector.throwing.add('metadata');
    bench.engine.step();
    const told = () => bench.workers[0].finished.flat().length;
    expect([told(), bench.engine.hasWork()]).toEqual([0, true]);
    expect(bench.engine.step().state).toBe('stalled');
    bench.connector.throwing.clear();
    bench.engine.step();
    expect(told()).toBe(1);
  });
});

describe('F36 a request that is handed over', () => {
  // Pinned by: `leftBy` (hand-over.ts), `kvExtent` (kv-extent.ts), `hasLost` (update-pass.ts).
  function overEngine(options: { delivers?: boolean } = {}) {
    const ended: { id: string; handOver: HandOver }[] = [];
    class Connector extends ScriptedConnector {
      override requestFinished(request: Request, reason: never, handOver: HandOver): Finished {
        ended.push({
          id: request.id,
          handOver: { ...handOver, blocks: handOver.blocks.map((b) => b.slice()) },
        });
        return super.requestFinished(request, reason, handOver);
      }
    }
    return { ended, connector: new Connector({ r: { delivers: options.delivers ?? false } }) };
  }

  it('at depth 1: all tokens but the last one, settled', () => {
    const { ended, connector } = overEngine();
    const executor = new FakeExecutor();
    const engine = new Engine({
      numBlocks: 20,
      blockSize: 4,
      maxModelLen: 32,
      maxNumBatchedTokens: 32,
      executor,
      connector,
    });
    engine.submit({ id: 'r', prompt: prompt(9), maxTokens: 4 });
    for (let i = 0; i < 6; i++) engine.step();
    expect(ended).toMatchObject([
      { id: 'r', handOver: { numTokens: 12, numSettledTokens: 12, readableFrom: -1 } },
    ]);
    expect(ended[0].handOver.blocks).toHaveLength(1);
    expect(ended[0].handOver.blocks[0]).toHaveLength(3);
    engine.dispose();
  });

  it('with a step in flight: what that step is to write is not settled', async () => {
    const { ended, connector } = overEngine();
    const executor = new FakeExecutor(true);
    const options = {
      numBlocks: 20,
      blockSize: 4,
      maxModelLen: 32,
      maxNumBatchedTokens: 32,
      pipelineDepth: 2 as const,
    };
    const engine = new Engine({ ...options, executor, connector });
    const r = engine.submit({ id: 'r', prompt: prompt(9), maxTokens: 9 });
    engine.step();
    engine.step();
    await executor.deliver();
    engine.step();
    r.abort();
    engine.step();
    expect(ended).toMatchObject([{ handOver: { numTokens: 10, numSettledTokens: 9, readableFrom: 1 } }]);
    engine.dispose();
  });

  it('whose step failed, by an error row, a throw or a rejection: nothing of that step', async () => {
    for (const how of ['row', 'throw', 'reject'] as const) {
      const { ended, connector } = overEngine();
      const executor = new FakeExecutor(how === 'reject');
      const options = { numBlocks: 20, blockSize: 4, maxModelLen: 32, maxNumBatchedTokens: 8 };
      const engine = new Engine({ ...options, executor, connector });
      const result = engine.submit({ id: 'r', prompt: prompt(20), maxTokens: 4 }).result();
      const failed = expect(result, how).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_EXECUTOR' });
      engine.step();
      await executor.deliver();
      executor.answer = ({ numRequests }) => {
        if (how === 'throw') throw new Error('planted');
        const tokens = new Int32Array(0);
        return { tokens, counts: new Int32Array(numRequests), errors: new Uint8Array(numRequests).fill(1) };
      };
      engine.step();
      engine.step();
      await executor.reject(new Error('planted'));
      engine.step();
      expect(ended, how).toMatchObject([
        { handOver: { numTokens: 8, numSettledTokens: 8, readableFrom: -1 } },
      ]);
      expect(ended[0].handOver.blocks[0], how).toHaveLength(2);
      await failed;
      engine.dispose();
      expect(ended, how).toHaveLength(1);
    }
  });

  it('of an engine that broke, since its executor never answered: nobody is told anything', () => {
    const { ended, connector } = overEngine();
    let now = 0;
    const options = { numBlocks: 20, blockSize: 4, maxModelLen: 32, maxNumBatchedTokens: 32 };
    const engine = new Engine({
      ...options,
      ...{ executor: new FakeExecutor(true), connector, executorTimeoutMs: 5, now: () => now },
    });
    engine
      .submit({ id: 'r', prompt: prompt(9), maxTokens: 4 })
      .result()
      .catch(() => {});
    engine.step();
    now = 10;
    expect(codeOf(() => engine.step())).toBe('ERR_BLOCKSTEP_EXECUTOR_HUNG');
    engine.dispose();
    expect(ended).toEqual([]);
  });

  it('while its KV is loaded: what was there before', () => {
    const bench = new RemoteEngine({ r: { ext: 8, async: true } });
    const r = bench.submit({ id: 'r' });
    bench.steps();
    const request = bench.engine.scheduler.getByHandle(r.handle) as Request;
    expect(request.numComputedTokens).toBe(8);
    r.abort();
    bench.steps();
    const [{ handOver }] = bench.connector.handOvers;
    expect(handOver).toMatchObject({ numTokens: 0, numSettledTokens: 0, readableFrom: -1 });
    expect(handOver.blocks[0]).toHaveLength(2);
    bench.land('r');
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('with clipHandOver off: also blocks in which nothing was computed', () => {
    for (const clipHandOver of [true, false]) {
      const { ended, connector } = overEngine();
      const executor = new FakeExecutor();
      const speculation = { numSpeculativeTokens: 6, speculativeMethod: 'draft_model' as const };
      const options = { numBlocks: 20, blockSize: 4, maxModelLen: 32, maxNumBatchedTokens: 32 };
      const engine = new Engine({
        ...options,
        ...speculation,
        executor,
        connector,
        deviations: clipHandOver || ['clipHandOver'],
      });
      engine.submit({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      for (let i = 0; i < 4; i++) engine.step();
      expect(ended[0].handOver.numTokens).toBe(10);
      expect(ended[0].handOver.blocks[0]).toHaveLength(clipHandOver ? 3 : 4);
      engine.dispose();
    }
  });
});

describe('F26 an engine that is disposed', () => {
  // Pinned by: `sayFarewell` (shutdown.ts).
  it.each([1, 2] as const)(
    'depth %i: tells the connector of each end, once, and the workers what it says to that',
    async (pipelineDepth) => {
      const bench = new RemoteEngine({ l: { ext: 8, async: true } }, { pipelineDepth });
      const streams = ['a', 'l', 'w'].map((id, i) => bench.submit({ id, prompt: prompt(9, i) }));
      bench.steps();
      bench.engine.pause('new');
      const late = bench.submit({ id: 'late', prompt: prompt(9, 7) });
      bench.engine.dispose();
      const ended = bench.connector.calls.filter((call) => call.startsWith('finished'));
      expect(ended.map((call) => call.split(' ').slice(0, 3).join(' '))).toEqual(
        ['a', 'l', 'w', 'late'].map((id) => `finished ${id} abort`),
      );
      const [worker] = bench.workers;
      expect(worker.finished.sort()).toEqual([...streams, late].map(({ handle }) => handle).sort());
      expect(worker.calls.at(-1)).toBe('shutdown');
      for (const each of streams)
        expect(await rejection(each.result())).toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    },
  );
});
