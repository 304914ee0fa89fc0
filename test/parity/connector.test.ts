import { beforeEach, describe, expect, it } from 'vitest';
import { TraceConnector } from './connector.js';
import type { Told } from './subject.js';
import type { KvParameters } from './trace.js';

const STOP = 'stop';
const BLOCKS = Int32Array.of(4, 5, 6);
const NONE = Int32Array.of();

describe('the connector of a trace', () => {
  let connector: TraceConnector;
  let handles = 70;

  function request(id: string, parameters: KvParameters | null): Told & { status: string } {
    const added = { id, handle: ++handles, status: 'WAITING' } as Told & { status: string };
    connector.expect(id, parameters);
    connector.onNewRequest(added);
    return added;
  }

  function load(of: Told, numLocalTokens = 0): void {
    const { numTokens } = connector.getNumNewMatchedTokens(of, numLocalTokens);
    connector.updateStateAfterAlloc(of, [BLOCKS], numTokens as number);
  }

  function receive(id: string): void {
    connector.updateConnectorOutput(connector.outputOf({ recv: [id], send: [] }));
  }

  beforeEach(() => {
    connector = new TraceConnector();
  });

  it('brings what lies behind the local prefix', () => {
    const r1 = request('r1', { ext: 40, async: 1 });
    const r2 = request('r2', { ext: 40 });
    const r3 = request('r3', null);
    expect(connector.getNumNewMatchedTokens(r1, 16)).toEqual({ numTokens: 24, async: true });
    expect(connector.getNumNewMatchedTokens(r1, 40)).toEqual({ numTokens: 0, async: false });
    expect(connector.getNumNewMatchedTokens(r2, 16)).toEqual({ numTokens: 24, async: false });
    expect(connector.getNumNewMatchedTokens(r2, 48)).toEqual({ numTokens: 0, async: false });
    expect(connector.getNumNewMatchedTokens(r3, 0)).toEqual({ numTokens: 0, async: false });
    expect(connector.drainCalls()).toEqual([
      ['match', 'r1', 16, 24, 1],
      ['match', 'r1', 40, 0, 0],
      ['match', 'r2', 16, 24, 0],
      ['match', 'r2', 48, 0, 0],
      ['match', 'r3', 0, 0, 0],
    ]);
    expect(connector.drainCalls()).toEqual([]);
  });

  it('asks for patience as often as it was told to', () => {
    const r1 = request('r1', { ext: 8, defer: 2 });
    const answers = [1, 2, 3].map(() => connector.getNumNewMatchedTokens(r1, 0).numTokens);
    expect(answers).toEqual([null, null, 8]);
    expect(connector.drainCalls()[0]).toEqual(['match', 'r1', 0, null, 0]);
  });

  it('brings a oneshot once: not when it was only asked, but when blocks were there for it', () => {
    const once = request('r1', { ext: 8, oneshot: 1 });
    const often = request('r2', { ext: 8 });
    expect(connector.getNumNewMatchedTokens(once, 0).numTokens).toBe(8);
    load(once);
    load(often);
    expect(connector.getNumNewMatchedTokens(once, 0).numTokens).toBe(0);
    expect(connector.getNumNewMatchedTokens(often, 0).numTokens).toBe(8);
    expect(connector.drainCalls()).toContainEqual(['alloc', 'r1', 8, 3]);
  });

  it('keeps blocks as it was told to, by how the request ended', () => {
    const params = { delayFree: true, transferParams: { of: 'r1' } };
    for (const [delay_free, delay_abort] of [
      [0, 1],
      [1, 0],
    ] as const) {
      const r1 = request('r1', { delay_free, delay_abort });
      r1.status = 'FINISHED_STOPPED';
      expect(connector.requestFinished(r1, STOP, { blocks: [BLOCKS] })).toEqual(
        delay_free ? params : { delayFree: false },
      );
      expect(connector.requestFinished(r1, STOP, { blocks: [NONE] })).toEqual({ delayFree: false });
      r1.status = 'FINISHED_ABORTED';
      expect(connector.requestFinished(r1, STOP, { blocks: [BLOCKS] })).toEqual(
        delay_abort ? params : { delayFree: false },
      );
    }
    expect(connector.drainCalls().slice(0, 3)).toEqual([
      ['finished', 'r1', 'FINISHED_STOPPED', 0, 3],
      ['finished', 'r1', 'FINISHED_STOPPED', 0, 0],
      ['finished', 'r1', 'FINISHED_ABORTED', 1, 3],
    ]);
  });

  it('wants no blocks that are still loaded, until that was reported', () => {
    const r1 = request('r1', { ext: 8, async: 1, delay_free: 1 });
    const sync = request('r2', { ext: 8, delay_free: 1 });
    r1.status = 'FINISHED_ERROR';
    load(r1);
    load(sync);
    expect(connector.requestFinished(r1, STOP, { blocks: [BLOCKS] }).delayFree).toBe(false);
    expect(connector.requestFinished(sync, STOP, { blocks: [BLOCKS] }).delayFree).toBe(true);
    receive('r2');
    expect(connector.requestFinished(r1, STOP, { blocks: [BLOCKS] }).delayFree).toBe(false);
    receive('r1');
    expect(connector.requestFinished(r1, STOP, { blocks: [BLOCKS] }).delayFree).toBe(true);
  });

  it('counts the places of each group, and those that are not null', () => {
    connector = new TraceConnector(true);
    const rows = [Int32Array.of(4, 5), Int32Array.of(0, 6)];
    const r1 = request('r1', { ext: 8, delay_free: 1 });
    r1.status = 'FINISHED_STOPPED';
    connector.updateStateAfterAlloc(r1, rows, 8);
    connector.requestFinished(r1, STOP, { blocks: rows });
    expect(connector.requestFinished(r1, STOP, { blocks: [NONE, BLOCKS] }).delayFree).toBe(true);
    expect(connector.requestFinished(r1, STOP, { blocks: [NONE, NONE] }).delayFree).toBe(false);
    expect(connector.drainCalls()).toEqual([
      ['alloc', 'r1', 8, [2, 2]],
      ['finished', 'r1', 'FINISHED_STOPPED', 1, [2, 2], [2, 1]],
      ['finished', 'r1', 'FINISHED_STOPPED', 1, [0, 3], [0, 3]],
      ['finished', 'r1', 'FINISHED_STOPPED', 0, [0, 0], [0, 0]],
    ]);
  });

  it('names requests by the handle of their last incarnation', () => {
    const r1 = request('r1', null);
    const again = request('r1', null);
    const r2 = request('r2', null);
    expect(again.handle).not.toBe(r1.handle);
    expect(connector.outputOf({ recv: ['r2', 'r1'], send: ['r1'], invalid: [9] })).toEqual({
      finishedReceiving: [{ handle: r2.handle }, { handle: again.handle }],
      finishedSending: [{ handle: again.handle }],
      invalidBlocks: [{ block: 9 }],
    });
  });

  it('knows no request that was not announced', () => {
    connector.expect('r1', null);
    expect(() => connector.outputOf({ recv: ['r1'], send: [] })).toThrow(
      'onNewRequest was not called for r1',
    );
    expect(() => connector.onNewRequest({ id: 'r2', handle: 1 } as Told)).toThrow('not told of r2');
  });
});
