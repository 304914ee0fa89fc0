// F3, F8, F16: aborts and slots in an engine.
import { describe, expect, it } from 'vitest';
import type { ConnectorOutput } from '../../src/connector.js';
import type { EngineOptions } from '../../src/index.js';
import { type Script, ScriptedConnector } from '../support/connector/scripted-connector.js';
import { ScriptedWorker } from '../support/connector/scripted-worker.js';
import { EngineBench, leftovers, outputs, prompt, settled } from '../support/engine-bench.js';
import { RemoteDriver } from './remote.js';
import { DEPTHS, expectText } from './support.js';

interface Bench extends EngineBench {
  connector: ScriptedConnector;
  workers: ScriptedWorker[];
}

/** An engine with a scripted connector and one worker a rank. */
function makeBench(
  scripts: Record<string, Script>,
  options: Partial<EngineOptions> & { ranks?: number; slow?: boolean } = {},
): Bench {
  const { ranks = 1, slow = false, ...rest } = options;
  const connector = new ScriptedConnector(scripts, {
    reporters: [Array.from({ length: ranks }, (_, i) => i)],
  });
  const workers = Array.from({ length: ranks }, () => new ScriptedWorker());
  const bench = new EngineBench({ connector, workers, ...rest }, slow);
  return Object.assign(bench, { connector, workers });
}

const finishedCalls = ({ connector }: Bench) => connector.calls.filter((call) => call.startsWith('finished'));

// Pinned by: the second drain of the aborts, between a step's answer and its update, in src/engine/loop/step-loop.ts.
describe('F3 an abort while its last step is computed', () => {
  for (const depth of DEPTHS) {
    it(`inside the executor: it ends as aborted, and nothing is kept for a reader, at depth ${depth}`, async () => {
      const bench = makeBench({ r: { delayFree: true } }, { pipelineDepth: depth });
      const stream = bench.submit({ id: 'r', maxTokens: 1 });
      bench.executor.onExecute = () => stream.abort();
      bench.steps();
      await expect(stream.result()).resolves.toMatchObject({
        finishReason: 'abort',
        tokens: new Int32Array(0),
        transferParams: null,
      });
      expect(finishedCalls(bench)).toEqual(['finished r abort 2']);
      expect(bench.engine.stats().scheduler.finished).toMatchObject({ abort: 1, length: 0 });
      expect(leftovers(bench.engine)).toEqual([]);
    });

    it(`between the two: the same, at depth ${depth}`, async () => {
      const bench = makeBench({ r: { delayFree: true } }, { pipelineDepth: depth, slow: true });
      const stream = bench.submit({ id: 'r', maxTokens: 1 });
      bench.steps();
      await bench.executor.deliver();
      bench.engine.abort('r');
      bench.steps();
      await expect(stream.result()).resolves.toMatchObject({ finishReason: 'abort' });
      expect(finishedCalls(bench)).toEqual(['finished r abort 2']);
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }

  it('from inside the step behind it: the same', async () => {
    const bench = makeBench({ r: { delayFree: true } }, { pipelineDepth: 2, slow: true });
    const stream = bench.submit({ id: 'r', maxTokens: 1 });
    bench.engine.step();
    const other = bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 2 });
    await bench.executor.deliver();
    bench.executor.onExecute = () => stream.abort();
    // One round: schedules the second step, in which it is aborted, and takes the first one, which ended it.
    const { answered, scheduledRequests } = bench.engine.step();
    expect({ answered, scheduledRequests }).toEqual({ answered: true, scheduledRequests: 1 });
    expect(finishedCalls(bench)).toEqual(['finished r abort 2']);
    await bench.finish();
    await expect(other.result()).resolves.toMatchObject({ finishReason: 'length' });
    await expect(stream.result()).resolves.toMatchObject({ finishReason: 'abort' });
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

// Pinned by: the boundary around every call of a worker, `#try` in src/engine/workers/workers.ts; the reclaim deadline.
describe('F8 a worker does not know the slot that it is told of', () => {
  /** Throws at a request that it never saw a step of. */
  class Panicking extends ScriptedWorker {
    override getFinished(finished: readonly number[]): ConnectorOutput | null {
      if (finished.length > 0) throw new Error(`no slot for ${finished}`);
      return super.getFinished(finished);
    }
  }

  for (const depth of DEPTHS) {
    it(`and throws: the engine goes on, and its report is not waited for without end, at depth ${depth}`, async () => {
      const scripts = { r: { delayAbort: true, delayEmpty: true } };
      const connector = new ScriptedConnector(scripts, { reporters: [[0, 1]] });
      const workers = [new ScriptedWorker(), new Panicking()];
      const options = { connector, workers, pipelineDepth: depth, deadlines: { reclaim: 100 } };
      const bench = new EngineBench(options);
      const gone = bench.submit({ id: 'r' });
      const other = bench.submit({ id: 'b', prompt: prompt(6, 1), maxTokens: 3 });
      // Before any step of it.
      bench.engine.abort('r');
      workers[0].next.push({ finishedSending: [{ handle: gone.handle }] });
      bench.steps();
      expect(workers[0].finished).toContain(gone.handle);
      expect(bench.engine.stats()).toMatchObject({
        workerFailures: 2,
        scheduler: { numDraining: 1, outstanding: { store: { count: 1 } } },
      });
      await expect(other.result()).resolves.toMatchObject({ finishReason: 'length' });
      expect(bench.engine.hasWork()).toBe(true);
      bench.time += 100;
      bench.steps();
      expect(bench.engine.hasWork()).toBe(false);
      expect(bench.engine.stats().scheduler).toMatchObject({ numDraining: 0, quarantines: 1 });
      expect(bench.engine.health()).toEqual({ healthy: true, state: 'open', authority: 'host', reasons: [] });
      expect(bench.engine.fenceTransfers()).toBe(1);
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }

  it('and reports it, again and again: one completion counts, the others are counted', async () => {
    const bench = makeBench({ r: { delayFree: true } });
    const stream = bench.submit({ id: 'r', maxTokens: 1 });
    for (let i = 0; i < 4; i++) bench.workers[0].next.push({ finishedSending: [{ handle: stream.handle }] });
    bench.steps();
    bench.engine.verify();
    // The first report meets the end of the request in one round; nobody has that handle any more in those behind it.
    for (let i = 0; i < 3; i++) bench.engine.step();
    expect(bench.engine.stats().scheduler.anomalies).toEqual({ 'stale-handle': 3 });
    expect(bench.engine.stats().workerFailures).toBe(0);
    await expect(stream.result()).resolves.toMatchObject({ finishReason: 'length' });
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

// Pinned by: `Plan.finishedHandles`, beside `Plan.finished`, and `Workers.planned` (src/engine/workers/workers.ts).
describe('F16 aborted and submitted again with its id before the next step', () => {
  for (const depth of DEPTHS) {
    it(`the first has finished and the second is new, in one plan, told apart by handle, at depth ${depth}`, async () => {
      const bench = makeBench({}, { pipelineDepth: depth, maxNumSeqs: 1 });
      const first = bench.submit({ id: 'r', maxTokens: 20 });
      bench.engine.step();
      bench.engine.step();
      const { handle } = first;
      first.abort();
      const second = bench.submit({ id: 'r', prompt: prompt(10, 1), maxTokens: 2 });
      expect(second.handle).not.toBe(handle);
      const seen: unknown[] = [];
      bench.executor.onExecute = (plan) => {
        seen.push({
          finished: plan.finished,
          now: plan.requests.slice(0, plan.numRequests).map((request) => request.handle),
          kinds: [...plan.kinds.subarray(0, plan.numRequests)],
          wholeList: [...plan.needsAllTokens.subarray(0, plan.numRequests)],
        });
      };
      bench.workers[0].finished.length = 0;
      bench.steps();
      expect(seen[0]).toEqual({
        finished: ['r'],
        now: [second.handle],
        kinds: [1],
        wholeList: [1],
      });
      // The worker is notified of the first one's end, then of the second one's, and of neither
      // twice.
      expect(bench.workers[0].finished).toEqual([handle, second.handle]);
      await settled();
      const text = (await outputs(second)).flatMap(({ tokens }) => [...tokens]);
      expect(text).toEqual([1000, 1100]);
      await expect(first.result()).resolves.toMatchObject({ finishReason: 'abort' });
      expect(bench.engine.stats().scheduler.rowStalls).toBe(0);
      expect(leftovers(bench.engine)).toEqual([]);
    });
  }

  it('a plan tells them apart although they have one id', () => {
    const driver = new RemoteDriver({}, { maxNumSeqs: 1 });
    const first = driver.add({ id: 'r', maxTokens: 9 });
    driver.step();
    driver.abort('r');
    const second = driver.add({ id: 'r', prompt: prompt(10, 1), maxTokens: 2 });
    const plan = driver.schedule();
    expect([plan.finished, plan.finishedHandles]).toEqual([['r'], [first]]);
    expect([driver.ids(plan), plan.requests[0].handle]).toEqual([['r'], second]);
    driver.update();
    driver.run();
    expectText(driver, second, 2);
  });

  it('a report about the first is not one about the second', async () => {
    const bench = makeBench({ r: { delayFree: true, delayAbort: true } });
    const first = bench.submit({ id: 'r', maxTokens: 20 });
    bench.engine.step();
    first.abort();
    const second = bench.submit({ id: 'r', prompt: prompt(10, 1), maxTokens: 2 });
    bench.workers[0].next.push({ finishedSending: [{ handle: first.handle }] });
    bench.steps();
    expect(bench.engine.stats().scheduler).toMatchObject({ numDraining: 1 });
    expect(bench.engine.stats().scheduler.anomalies).toEqual({});
    bench.workers[0].next.push({ finishedSending: [{ handle: second.handle }] });
    bench.steps();
    expect(finishedCalls(bench)).toEqual(['finished r abort 2', 'finished r length 3']);
    await expect(second.result()).resolves.toMatchObject({ finishReason: 'length' });
    expect(leftovers(bench.engine)).toEqual([]);
  });
});
