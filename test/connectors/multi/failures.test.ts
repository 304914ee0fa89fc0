// The cost of a throwing child, on both sides; the input of a child; refusals.
import { describe, expect, it } from 'vitest';
import type { BlockPins, KvView } from '../../../src/connector.js';
import { MultiConnector, MultiWorker } from '../../../src/connectors/multi/index.js';
import type { Plan } from '../../../src/index.js';
import type { ChildrenError } from '../../../src/scheduler/connector/children-error.js';
import { ScriptedWorker } from '../../support/connector/scripted-worker.js';
import { codeOf } from '../../support/driver.js';
import { EngineBench, leftovers } from '../../support/engine-bench.js';
import { Child, MultiBench } from './children.js';

const LOAD = { ext: 4, async: true };

describe('a child that throws', () => {
  const methods = ['match', 'alloc', 'metadata', 'output', 'finished', 'reset', 'shutdown', 'new', 'cancel'];

  it.each(methods)(
    'at %s does not keep the others from being called, and is counted and named',
    async (method) => {
      const children = [
        new Child({ r: { delayFree: true } }),
        new Child(),
        new Child({ r: { delayFree: true } }),
      ];
      children[1].throwing.add(method);
      const bench = new MultiBench(children, 1, { reclaim: 'on-confirmation', strict: false });
      const stream = bench.submit({ id: 'r' });
      stream.result().catch(() => {});
      bench.workers[0][0].next.push({ metadata: 'hello' } as never);
      await bench.finish();
      bench.engine.abort(stream.handle);
      bench.steps();
      bench.engine.fenceTransfers();
      bench.steps();
      bench.engine.resetPrefixCache({ resetConnector: true });
      const { anomalies } = bench.engine.stats().scheduler;
      if (method !== 'shutdown' && method !== 'cancel')
        expect(anomalies['connector-failed']).toBeGreaterThan(0);
      bench.engine.dispose();
      const of = (child: Child) => child.calls.filter((call) => call.startsWith(method)).length;
      if (method === 'cancel') expect(children.map(of)).toEqual([1, 0, 1]);
      else {
        expect(of(children[0])).toBeGreaterThan(0);
        expect(of(children[2])).toBe(of(children[0]));
        expect(of(children[1])).toBe(of(children[0]));
      }
    },
  );

  it('at the question what it can load offers nothing: another child loads', async () => {
    const children = [new Child(), new Child({ r: LOAD })];
    children[0].throwing.add('match');
    const bench = new MultiBench(children);
    const stream = bench.submit({ id: 'r' });
    bench.steps();
    expect(bench.status(stream)).toBe('WAITING_FOR_REMOTE_KVS');
    bench.workers[0][1].next.push({ finishedReceiving: [{ handle: stream.handle }] });
    await bench.finish();
    expect((await stream.result()).finishReason).toBe('length');
    expect(bench.anomalies).toEqual({ 'connector-failed': 1 });
  });

  it('when it is to load costs its request', async () => {
    const children = [new Child({ r: LOAD }), new Child()];
    children[0].throwing.add('alloc');
    const bench = new MultiBench(children);
    const stream = bench.submit({ id: 'r' });
    const result = expect(stream.result()).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
    await bench.finish();
    await result;
    bench.engine.fenceTransfers();
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('at the metadata of a plan loses its own loads alone', async () => {
    const children = [new Child({ a: LOAD }), new Child({ b: LOAD })];
    const bench = new MultiBench(children, 1, { loadFailurePolicy: 'fail' });
    const [a, b] = ['a', 'b'].map((id) => bench.submit({ id }));
    const failed = expect(a.result()).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
    children[0].throwing.add('metadata');
    bench.engine.step();
    children[0].throwing.clear();
    bench.workers[0][1].next.push({ finishedReceiving: [{ handle: b.handle }] });
    await bench.finish();
    await failed;
    expect((await b.result()).finishReason).toBe('length');
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('at the end of a request counts as owner of the blocks; the others do not', async () => {
    const children = [new Child(), new Child()];
    children[1].throwing.add('finished');
    const bench = new MultiBench(children);
    const { handle } = bench.submit({ id: 'r' });
    await bench.finish();
    expect(bench.engine.stats().scheduler.outstanding.store.count).toBe(1);
    bench.workers[0][1].next.push({ finishedSending: [{ handle }] });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
    expect(bench.anomalies).toEqual({ 'connector-failed': 1 });
  });

  it('does not hide what another one must deliver, or has still to do', () => {
    const children = [new Child(), new Child({ r: { delivers: true } })];
    children[0].requiresKvDelivery = () => {
      throw new Error('planted');
    };
    children[0].hasPendingWork = () => {
      throw new Error('planted');
    };
    children[1].pending = true;
    const multi = new MultiConnector({ children, numRanks: 1 });
    const thrown = (call: () => unknown): unknown => {
      try {
        return call();
      } catch (error) {
        return (error as { answer?: unknown }).answer;
      }
    };
    expect(thrown(() => multi.requiresKvDelivery({ id: 'r' } as never))).toBe(true);
    expect(thrown(() => multi.hasPendingWork())).toBe(true);
  });

  it.each([
    ['a number that is too large', { numTokens: 99, async: true }],
    ['a child that it has not', { numTokens: 4, async: true, child: 1 }],
    ['nothing', undefined],
    ['a promise', Promise.resolve({ numTokens: 4, async: true })],
  ])('or answers with %s offers nothing', async (_, nonsense) => {
    const children = [new Child(), new Child()];
    children[0].getNumNewMatchedTokens = () => nonsense as never;
    const bench = new MultiBench(children);
    const stream = bench.submit({ id: 'r' });
    await bench.finish();
    expect((await stream.result()).finishReason).toBe('length');
    expect(bench.anomalies).toEqual({ 'connector-failed': 1 });
  });

  it('without the protection own it may not keep blocks', async () => {
    const children = [new Child({}, { protection: 'pin' }), new Child()];
    children[0].requestFinished = () => ({ delayFree: true });
    const bench = new MultiBench(children);
    bench.submit({ id: 'r' });
    await bench.finish();
    expect(bench.anomalies).toEqual({ 'connector-failed': 1 });
  });
});

function errorOf(call: () => unknown): ChildrenError {
  try {
    call();
  } catch (error) {
    return error as ChildrenError;
  }
  throw new Error('nothing was thrown');
}

describe('a worker that throws', () => {
  it.each(['loads', 'preemptions'])('at %s loses the loads of its own child', async (method) => {
    const children = [new Child({ a: LOAD }), new Child({ b: LOAD })];
    const bench = new MultiBench(children);
    const [a, b] = ['a', 'b'].map((id) => bench.submit({ id }));
    const failed = expect(a.result()).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
    bench.workers[0][0].throwing.add(method);
    bench.workers[0][1].next.push(null, { finishedReceiving: [{ handle: b.handle }] });
    bench.engine.step();
    bench.workers[0][0].throwing.clear();
    await bench.finish();
    await failed;
    expect((await b.result()).finishReason).toBe('length');
    expect(bench.workers[0][1].calls.filter((call) => call.startsWith('loads')).length).toBeGreaterThan(0);
    expect(bench.engine.stats().workerFailures).toBe(1);
    // Nobody knows what was begun, so the blocks wait for a report.
    bench.engine.fenceTransfers();
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('when it is asked takes nothing from what the others say', async () => {
    const children = [new Child({ a: LOAD }), new Child({ b: LOAD })];
    const bench = new MultiBench(children);
    const b = bench.submit({ id: 'b' });
    bench.steps();
    bench.workers[0][0].throwing.add('finished');
    bench.workers[0][1].next.push({ finishedReceiving: [{ handle: b.handle }] });
    bench.steps();
    bench.workers[0][0].throwing.clear();
    await bench.finish();
    expect((await b.result()).finishReason).toBe('length');
    expect(bench.engine.stats().workerFailures).toBeGreaterThan(0);
  });

  it.each([
    ['no object', () => 7, 'getFinished() must be an object of lists, or null, got 7'],
    ['no list', () => ({ renewed: 'x' }), 'getFinished().renewed must be an array, got "x"'],
    [
      'no list behind a good one',
      () => ({ finishedSending: [{ handle: 1 }], invalidBlocks: 3 }),
      'invalidBlocks',
    ],
    ['a promise', () => Promise.reject(new Error('later')), 'answered with a promise'],
  ])('when it answers %s costs what it says, and nobody else', (_name, answer, message) => {
    const [bad, good] = [new ScriptedWorker(), new ScriptedWorker()];
    bad.getFinished = answer as never;
    good.next.push({ finishedSending: [{ handle: 5 }], renewed: [{ handle: 6 }] });
    const worker = new MultiWorker({ children: [bad, good] });
    const error = errorOf(() => worker.getFinished([]));
    expect(String(error)).toContain(`child 0 (ScriptedWorker 0)`);
    expect(String(error)).toContain(message);
    expect(error.answer).toEqual({
      finishedSending: [{ handle: 5, child: 1 }],
      renewed: [{ handle: 6, child: 1 }],
    });
  });

  it('does not keep the others from being settled, stored and shut down', () => {
    const [bad, good] = [new ScriptedWorker(), new ScriptedWorker()];
    for (const method of ['settled', 'stores', 'shutdown']) bad.throwing.add(method);
    const worker = new MultiWorker({ children: [bad, good] });
    expect(() => worker.onStepSettled(3)).toThrow('child 0 (ScriptedWorker 0): Error: planted in settled');
    expect(() => worker.startStores(undefined, { step: 3, failed: [] })).toThrow('planted in stores');
    expect(() => worker.shutdown()).toThrow('planted in shutdown');
    expect(good.calls).toEqual(['settled 3', 'stores 3', 'shutdown']);
  });
});

describe('what a child is given', () => {
  it('has names and pins of its own', async () => {
    const views: KvView[] = [];
    const pins: BlockPins[] = [];
    const children = [0, 1].map(() => {
      const child = new Child({}, { protection: 'pin' });
      Object.assign(child, { bind: (view: KvView) => views.push(view) });
      child.bindPins = (given) => void pins.push(given);
      return child;
    });
    const bench = new MultiBench(children);
    const { handle } = bench.submit({ id: 'r' });
    bench.engine.step();
    expect(views.map((view) => view.hold(handle, 'store', 'job 1'))).toEqual([true, true]);
    expect(views[0].complete(handle, 'store', 'job 1')).toBe(true);
    await bench.finish();
    expect(bench.engine.stats().scheduler.outstanding.store.count).toBe(1);
    expect(views[1].complete(handle, 'store', 'job 1')).toBe(true);
    pins[0].pin(Int32Array.of(5, 6));
    expect(codeOf(() => pins[1].unpin(Int32Array.of(5)))).toBe('ERR_BLOCKSTEP_NOT_PINNED');
    expect(codeOf(() => pins[0].unpin(Int32Array.of(5, 5)))).toBe('ERR_BLOCKSTEP_NOT_PINNED');
    pins[0].unpin(Int32Array.of(5, 6));
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('is its own metadata, and what its own workers say', () => {
    const children = [new Child(), new Child()];
    const multi = new MultiConnector({ children, numRanks: 1 });
    expect(multi.buildMetadata({ step: 3 } as Plan)).toEqual({
      firsts: [0, 1, 2],
      children: [{ step: 3 }, { step: 3 }],
    });
    multi.updateConnectorOutput({
      finishedSending: [{ handle: 7, child: 1, rank: 2 }],
      lostBlocks: [4],
      workerMetadata: [{ rank: 1, metadata: [[1, 'said']] }],
    });
    expect(children[0].outputs).toEqual([{ lostBlocks: [4], workerMetadata: [] }]);
    expect(children[1].outputs).toEqual([
      {
        finishedSending: [{ handle: 7, child: 0, rank: 2 }],
        lostBlocks: [4],
        workerMetadata: [{ rank: 1, metadata: 'said' }],
      },
    ]);
  });

  it('every tier is reset, also behind one that cannot be', () => {
    const children = [new Child(), new Child(), new Child()];
    const multi = new MultiConnector({ children, numRanks: 1 });
    expect(multi.resetCache()).toBe(undefined);
    children[2].tier = true;
    expect(multi.resetCache()).toBe(true);
    children[0].tier = false;
    expect(multi.resetCache()).toBe(false);
    expect(children.map(({ calls }) => calls.length)).toEqual([3, 3, 3]);
  });
});

describe('a MultiConnector refuses', () => {
  it.each([
    [undefined, 'the options of a MultiConnector must be an object'],
    [{ children: [], numRanks: 1 }, 'children must be a list of at least one connector'],
    [{ children: [new Child()] }, 'numRanks must be'],
    [{ children: [new Child()], ranks: 1 }, 'ranks'],
    [{ children: [null], numRanks: 1 }, 'children[0] must be a connector'],
    [{ children: [{ name: '', connector: new Child() }], numRanks: 1 }, 'children[0].name'],
    [
      { children: [0, 1].map(() => ({ name: 'a', connector: new Child() })), numRanks: 1 },
      'children[1].name must be a name that no other child has',
    ],
    [{ children: [new Child({}, { reporters: [[1]] })], numRanks: 1 }, 'reporters[0]'],
  ])('%j', (options, message) => {
    expect(() => new MultiConnector(options as never)).toThrow(message);
  });

  it('workers of another number', () => {
    expect(() => new MultiWorker({ children: [] })).toThrow('children must be a list of at least one worker');
    expect(() => new MultiWorker({ children: [{}] as never })).toThrow('children[0] must be');
    const bench = new EngineBench({
      connector: new MultiConnector({ children: [new Child(), new Child()], numRanks: 1 }),
      workers: [new MultiWorker({ children: [new ScriptedWorker()] }) as never],
    });
    bench.submit();
    bench.steps();
    expect(bench.engine.stats().workerFailures).toBeGreaterThan(0);
  });
});
