// The sequences of vLLM #42831, #36549 and #53903; the owner of a load, the children to wait for at
// an end.
import { describe, expect, it } from 'vitest';
import type { Match, WorkerConnector } from '../../../src/connector.js';
import { MultiConnector, MultiWorker } from '../../../src/connectors/multi/index.js';
import type { Request } from '../../../src/index.js';
import { ScriptedWorker } from '../../support/connector/scripted-worker.js';
import { EngineBench, leftovers } from '../../support/engine-bench.js';
import { Child, MultiBench } from './children.js';

const LOAD = { ext: 4, async: true };
const PARAMS = { remote: 'blocks' };

describe.each([1, 2, 3] as const)('a load has one owner (depth %i)', (pipelineDepth) => {
  it('vLLM #42831: a child that does not own the load cannot end it, and sees no transfer params', async () => {
    const [pull, store] = [new Child(), new Child({ r: LOAD })];
    const bench = new MultiBench([pull, store], 1, { pipelineDepth });
    const stream = bench.submit({ id: 'r', transferParams: PARAMS });
    bench.steps();
    expect(bench.status(stream)).toBe('WAITING_FOR_REMOTE_KVS');
    // NIXL took a call with 0 tokens and with params for an order to notify its peer. Each child
    // gets this call twice, so the params must be absent both times.
    bench.workers[0][0].next.push({ finishedReceiving: [{ handle: stream.handle }] });
    bench.steps();
    expect(bench.status(stream)).toBe('WAITING_FOR_REMOTE_KVS');
    expect(bench.anomalies).toEqual({ 'wrong-owner': 1 });
    bench.workers[0][1].next.push({ finishedReceiving: [{ handle: stream.handle }] });
    await bench.finish();
    expect((await stream.result()).finishReason).toBe('length');
    const told = (child: Child) => child.seen.filter(({ method }) => method === 'alloc');
    expect(told(pull)).toEqual([
      { method: 'alloc', params: null, tokens: 0 },
      { method: 'alloc', params: null, tokens: 0 },
    ]);
    expect(told(store)).toEqual([
      { method: 'alloc', params: PARAMS, tokens: 4 },
      { method: 'alloc', params: PARAMS, tokens: 0 },
    ]);
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('without an owner every child sees the transfer params: as a producer, or at a full hit', async () => {
    const children = [new Child(), new Child()];
    const bench = new MultiBench(children, 1, { pipelineDepth });
    bench.submit({ id: 'r', transferParams: PARAMS });
    await bench.finish();
    for (const { seen } of children)
      expect(seen.at(-1)).toEqual({ method: 'alloc', params: PARAMS, tokens: 0 });
  });

  it('the first child that has something owns the load, whatever the others have', async () => {
    const children = [new Child(), new Child({ r: LOAD }), new Child({ r: { ext: 8, async: true } })];
    const bench = new MultiBench(children, 1, { pipelineDepth });
    const stream = bench.submit({ id: 'r', prompt: [1, 2, 3, 4, 5, 6, 7, 8, 9] });
    bench.steps();
    expect(children.map(({ seen }) => seen.at(-1)?.tokens)).toEqual([0, 4, 0]);
    for (const rank of bench.workers) rank[1].next.push({ finishedReceiving: [{ handle: stream.handle }] });
    await bench.finish();
    expect(bench.anomalies).toEqual({});
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('the view works on what a child was shown in place of the request', () => {
    const other = new Child();
    let seen: unknown;
    let view: Parameters<NonNullable<MultiConnector['bind']>>[0];
    Object.assign(other, { bind: (given: typeof view) => (view = given) });
    const update = other.updateStateAfterAlloc.bind(other);
    other.updateStateAfterAlloc = (request, lists, tokens) => {
      update(request, lists, tokens);
      const { numSettledTokens } = view.extent(request);
      seen ??= [
        view.blocks(request)[0].length,
        view.numFullBlocks(request),
        [...view.tokens(request)],
        numSettledTokens,
      ];
      expect(view.blockHash(request, 0)).toBeTypeOf('bigint');
      expect(request.isFinished).toBe(false);
    };
    const bench = new MultiBench([other, new Child({ r: LOAD })], 1, { pipelineDepth });
    bench.submit({ id: 'r', prompt: [1, 2, 3, 4, 5, 6], transferParams: PARAMS });
    bench.steps();
    expect(seen).toEqual([1, 1, [1, 2, 3, 4, 5, 6], 0]);
  });

  it('whoever cannot say yet is waited for, and its wake wakes the request', async () => {
    const [first, second] = [new Child({ r: LOAD }), new Child()];
    const bound: { wake(handle: number): boolean }[] = [];
    Object.assign(second, { bind: (view: { wake(handle: number): boolean }) => bound.push(view) });
    second.isAsking.add('r');
    second.wakes = true;
    const bench = new MultiBench([first, second], 1, { pipelineDepth });
    const stream = bench.submit({ id: 'r' });
    bench.steps();
    const asked = first.seen.length;
    bench.steps();
    expect(first.seen.length).toBe(asked);
    second.isAsking.clear();
    expect(bound[0].wake(stream.handle)).toBe(true);
    bench.steps();
    expect(bench.status(stream)).toBe('WAITING_FOR_REMOTE_KVS');
    bench.workers[0][0].next.push({ finishedReceiving: [{ handle: stream.handle }] });
    await bench.finish();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('one child that does not wake keeps the request from being asked about once only', () => {
    const children = [new Child(), new Child()];
    children[1].wakes = true;
    for (const child of children) child.isAsking.add('r');
    const bench = new MultiBench(children, 1, { pipelineDepth });
    bench.submit({ id: 'r' });
    for (let i = 0; i < 5; i++) bench.engine.step();
    expect(children[0].seen.length).toBeGreaterThan(3);
  });
});

describe('the end of a request', () => {
  it('vLLM #53903: each child is waited for on the ranks that it declares, and on no other', async () => {
    const end = { delayFree: true };
    const children = [new Child({ r: end }, { reporters: [[1]] }), new Child({ r: end }), new Child()];
    children[1].requestFinished = () => ({ delayFree: true });
    const bench = new MultiBench(children, 2);
    const stream = bench.submit({ id: 'r' });
    await bench.finish();
    const { handle } = stream;
    const draining = () => bench.engine.stats().scheduler.outstanding.store.count;
    expect(draining()).toBe(3);
    bench.workers[1][0].next.push({ finishedSending: [{ handle }] });
    bench.steps();
    expect(draining()).toBe(2);
    for (const rank of bench.workers) rank[1].next.push({ finishedSending: [{ handle }] });
    bench.steps();
    expect(bench.anomalies).toEqual({});
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('vLLM #36549: every child is asked, and the params of each arrive', async () => {
    const children = [new Child(), new Child({ r: { delayFree: true } }), new Child()];
    children[2].requestFinished = () => ({ delayFree: false, transferParams: { second: 2 } });
    const bench = new MultiBench(children);
    const stream = bench.submit({ id: 'r' });
    await bench.finish();
    expect((await stream.result()).transferParams).toEqual({ remote: 'r', second: 2 });
    expect(bench.anomalies).toEqual({});
  });

  it('two children that give the same key are named, and the first one is right', async () => {
    const children = [new Child(), new Child()];
    children.forEach((child, i) => {
      child.requestFinished = () => ({ delayFree: false, transferParams: { host: i, [`own${i}`]: true } });
    });
    const multi = new MultiConnector({
      children: [
        { name: 'lease', connector: children[0] },
        { name: 'store', connector: children[1] },
      ],
      numRanks: 1,
    });
    const bench = new EngineBench({ connector: multi });
    const stream = bench.submit({ id: 'r' });
    await bench.finish();
    expect((await stream.result()).transferParams).toEqual({ host: 0, own0: true, own1: true });
    expect(bench.engine.stats().scheduler.anomalies).toEqual({ 'connector-failed': 1 });
    const strict = new EngineBench({
      connector: new MultiConnector({ children, numRanks: 1 }),
      strict: true,
    });
    strict.submit({ id: 'r' });
    await expect(strict.finish()).rejects.toThrow(
      /child 1 \(Child 1\): .*the key host, which child 0 \(Child 0\) gave too/,
    );
  });

  it('only children that send are asked to stop', async () => {
    const children = [new Child({ r: { delayFree: true } }), new Child()];
    const bench = new MultiBench(children, 1, { reclaim: 'on-confirmation' });
    const stream = bench.submit({ id: 'r' });
    await bench.finish();
    bench.engine.abort(stream.handle);
    bench.steps();
    expect(children.map(({ calls }) => calls.filter((call) => call.startsWith('cancel')))).toEqual([
      ['cancel r'],
      [],
    ]);
    bench.workers[0][0].next.push({ finishedSending: [{ handle: stream.handle }] });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });
});

describe('one Multi inside another', () => {
  it('has the child indexes of its children, one after the other', async () => {
    const deep = [new Child(), new Child({ r: { ...LOAD, delayFree: true } })];
    const inner = new MultiConnector({ children: deep, numRanks: 1 });
    const outer = new MultiConnector({ children: [new Child(), inner as never, new Child()], numRanks: 1 });
    expect(outer.reporters).toEqual([[0], [0], [0], [0]]);
    const workers = Array.from({ length: 4 }, () => new ScriptedWorker());
    const side = new MultiWorker({
      children: [
        workers[0],
        new MultiWorker({ children: workers.slice(1, 3) }) as WorkerConnector,
        workers[3],
      ],
    });
    const bench = new EngineBench({ connector: outer, workers: [side as WorkerConnector] });
    const { handle } = bench.submit({ id: 'r' });
    bench.steps();
    workers[3].next.push({ finishedReceiving: [{ handle }] });
    bench.steps();
    expect(bench.engine.stats().scheduler.anomalies).toEqual({ 'wrong-owner': 1 });
    workers[2].next.push({ finishedReceiving: [{ handle }] });
    await bench.finish();
    expect(bench.engine.stats().scheduler.outstanding.store.count).toBe(1);
    workers[2].next.push({ finishedSending: [{ handle }] });
    bench.steps();
    expect(leftovers(bench.engine)).toEqual([]);
  });

  it('fails in part: the failed grandchild is named and counted, the answer stands', () => {
    const deep = [new Child(), new Child({ r: LOAD })];
    deep[0].throwing.add('match');
    const inner = new MultiConnector({ children: deep, numRanks: 1 });
    const outer = new MultiConnector({ children: [new Child(), inner as never], numRanks: 1 });
    const request = { id: 'r', handle: 1, numTokens: 9, transferParams: null } as unknown as Request;
    let answer: Match | undefined;
    try {
      outer.getNumNewMatchedTokens(request, 0);
    } catch (error) {
      expect((error as Error).message).toBe('child 1 (Child 0): Error: planted in match');
      answer = (error as { answer?: Match }).answer;
    }
    expect(answer).toEqual({ numTokens: 4, async: true, child: 2, wakes: false });
  });
});
