import { describe, expect, it } from 'vitest';
import { leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';
import { callbacks, DEPTHS, expectText, expectUnchanged, report, scheduleWork, WAYS } from './support.js';

const TWO_RANKS = [[0, 1]];

// Pinned by: get and skip, `getByHandle` in src/scheduler/state/guards.ts, before every report in src/scheduler/loads/reports.ts.
describe('F1 a report about a request that is long gone', () => {
  for (const pipelineDepth of DEPTHS) {
    for (const way of WAYS) {
      it(`changes nothing and throws nothing, ${way}, at depth ${pipelineDepth}`, () => {
        const driver = new RemoteDriver({}, { pipelineDepth, reporters: TWO_RANKS });
        const gone = driver.add({ id: 'gone', maxTokens: 2 });
        driver.run();
        expect(callbacks(driver, 'gone')).toEqual(['finished gone length 3']);
        const other = driver.add({ id: 'other', prompt: prompt(9, 1), maxTokens: 8 });
        scheduleWork(driver);
        const late = [0, 1].map((rank) => ({ handle: gone, rank }));
        const output = { finishedReceiving: late, finishedSending: late, failedReceiving: late };
        if (way === 'without a step') {
          expectUnchanged(driver.scheduler, () => driver.scheduler.updateTransfers(output));
        } else report(driver, way, output);
        expect(driver.anomalies).toEqual({ 'stale-handle': 6 });
        driver.run();
        expectText(driver, other, 8);
        expect(callbacks(driver, 'gone')).toHaveLength(1);
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }

  it('costs no other report of the same list', () => {
    const driver = new RemoteDriver({ a: { ext: 8, async: true } });
    const gone = driver.add({ id: 'gone', maxTokens: 1 });
    driver.run();
    const loading = driver.loading({ id: 'a', prompt: prompt(9, 1), maxTokens: 2 });
    driver.land(loading);
    driver.say({ finishedReceiving: [{ handle: gone }, { handle: loading }, { handle: 12345 }] });
    driver.run();
    expectText(driver, loading, 2);
    expect(driver.anomalies).toEqual({ 'stale-handle': 2 });
  });
});

// Pinned by: `Outstanding.addEarly` and `endEarly` (src/scheduler/request/outstanding.ts), in `applySent` and `handOver`.
describe('F9 sent before it finished', () => {
  for (const pipelineDepth of DEPTHS) {
    for (const way of WAYS) {
      it(`frees nothing of a running request, and is not waited for later, ${way}, at depth ${pipelineDepth}`, () => {
        const driver = new RemoteDriver({ a: { delayFree: true } }, { pipelineDepth, reporters: TWO_RANKS });
        const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 6 });
        driver.step();
        if (driver.inFlight.length === 0) scheduleWork(driver);
        const held = driver.blocks(handle);
        report(driver, way, { finishedSending: [{ handle, rank: 0 }] });
        expect(driver.anomalies).toEqual({ 'live-completion': 1 });
        expect(driver.blocks(handle).slice(0, held.length)).toEqual(held);
        expectUnchanged(driver.scheduler, () =>
          driver.scheduler.updateTransfers({ finishedSending: [{ handle, rank: 0 }] }),
        );
        expect(driver.anomalies).toEqual({ 'live-completion': 1, 'duplicate-completion': 1 });
        driver.run(50, () => driver.scheduler.numUnfinished > 0);
        expectText(driver, handle, 6);
        expect(driver.scheduler.stats().outstanding.store.count).toBe(1);
        driver.sent(handle, 1);
        driver.run();
        expect(leftovers(driver.scheduler)).toEqual([]);
        expect(callbacks(driver, 'a')).toEqual(['finished a length 4']);
      });
    }

    it(`by every rank, so that its blocks go back when it ends, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver({ a: { delayFree: true } }, { pipelineDepth, reporters: TWO_RANKS });
      const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
      driver.step();
      driver.sent(handle, 0, 1);
      driver.run(50);
      expectText(driver, handle, 4);
      expect(driver.scheduler.stats().numDraining).toBe(0);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('and its connector wants no blocks after all: they go back once, when it ends', () => {
    const driver = new RemoteDriver({});
    const handle = driver.add({ id: 'a', maxTokens: 3 });
    driver.step();
    driver.sent(handle);
    driver.run();
    expectText(driver, handle, 3);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('while its own KV is still being loaded: the load goes on and is waited for', () => {
    const driver = new RemoteDriver({ a: { ext: 8, async: true, delayFree: true } });
    const handle = driver.loading({ id: 'a', prompt: prompt(9), maxTokens: 2 });
    driver.sent(handle);
    expect(driver.scheduler.stats()).toMatchObject({ numLoading: 1, numDraining: 0 });
    driver.empty();
    driver.received(handle);
    driver.run();
    expectText(driver, handle, 2);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('and is preempted then: it is remembered beyond its blocks', () => {
    const driver = new RemoteDriver({ a: { delayFree: true } });
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    driver.step();
    driver.sent(handle);
    expect(driver.scheduler.resetPrefixCache({ resetRunning: true })).toMatchObject({ preempted: ['a'] });
    driver.run(50);
    expectText(driver, handle, 4);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('and its connector names one child twice: that child is not waited for again', () => {
    const driver = new RemoteDriver({ a: { delayFree: true, children: [0, 0] } });
    const handle = driver.add({ id: 'a', maxTokens: 3 });
    driver.step();
    driver.sent(handle);
    driver.run(50);
    expectText(driver, handle, 3);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

// Pinned by: uses named by (direction, child, rank) in src/scheduler/request/outstanding.ts, never counted; `applyReceived`.
describe('F11 the same rank or another child reports again', () => {
  const TWO_CHILDREN = [
    [0, 1],
    [0, 1],
  ];

  for (const pipelineDepth of DEPTHS) {
    it(`a load is done when each rank has said so, however often one does, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver(
        { a: { ext: 8, async: true, child: 1 } },
        { pipelineDepth, reporters: TWO_CHILDREN },
      );
      const handle = driver.loading({ id: 'a', prompt: prompt(9), maxTokens: 3 });
      driver.say({ finishedReceiving: [{ handle, child: 1, rank: 0 }] });
      for (const again of [
        { handle, child: 1, rank: 0 },
        { handle, child: 0, rank: 1 },
        { handle, child: 1, rank: 7 },
      ]) {
        expectUnchanged(driver.scheduler, () =>
          driver.scheduler.updateTransfers({ finishedReceiving: [again, again] }),
        );
        driver.empty();
      }
      expect(driver.anomalies).toEqual({ 'duplicate-completion': 2, 'wrong-owner': 4 });
      // Only now does the other rank write what the request reads.
      driver.received(handle, { handle, child: 1, rank: 1 });
      driver.run();
      expectText(driver, handle, 3);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`sent twice by one rank of two: the blocks stay for the other, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver({ a: { delayFree: true } }, { pipelineDepth, reporters: TWO_RANKS });
      const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
      driver.run(20, () => driver.scheduler.numUnfinished > 0);
      const held = 31 - driver.free;
      driver.sent(handle, 0, 0);
      driver.sent(handle, 0);
      expect(31 - driver.free).toBe(held);
      expect(driver.scheduler.stats().numDraining).toBe(1);
      driver.sent(handle, 1);
      driver.run();
      expect(driver.anomalies).toEqual({ 'duplicate-completion': 2 });
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('late reports of a first load do not end the second one of the same request', () => {
    const driver = new RemoteDriver({ a: { ext: 8, async: true } }, { reporters: TWO_RANKS });
    const handle = driver.loading({ id: 'a', prompt: prompt(9), maxTokens: 3 });
    const first = driver.connector.loadOf(handle).step;
    driver.received(handle, { handle, rank: 0, step: first }, { handle, rank: 1, step: first });
    driver.step();
    expect(driver.scheduler.resetPrefixCache({ resetRunning: true })).toMatchObject({ ok: true });
    driver.empty();
    const second = driver.connector.loadOf(handle).step;
    expect(second).toBeGreaterThan(first);
    const late = [0, 1].map((rank) => ({ handle, rank, step: first }));
    expectUnchanged(driver.scheduler, () =>
      driver.scheduler.updateTransfers({ finishedReceiving: late, failedReceiving: late }),
    );
    driver.empty();
    driver.received(handle, { handle, rank: 0, step: second }, { handle, rank: 1, step: second });
    driver.run();
    expectText(driver, handle, 3);
    expect(driver.anomalies).toEqual({ 'duplicate-completion': 4 });
  });
});

// Pinned by: handles that name one incarnation, `incarnation` in src/scheduler/state/scheduler-state.ts.
describe('F15 an id is used again while its former incarnation is not gone', () => {
  const LOADS = { x: { ext: 8, async: true, delayAbort: false } };

  for (const pipelineDepth of DEPTHS) {
    it(`a late load of the first frees the first, and the second waits for its own, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver(LOADS, { pipelineDepth });
      const first = driver.loading({ id: 'x', prompt: prompt(9), maxTokens: 3 });
      expect(driver.abort('x')).toEqual(['x']);
      const second = driver.loading({ id: 'x', prompt: prompt(9, 1), maxTokens: 3 });
      const held = driver.blocks(second);
      expect(held.some((block) => driver.blocks(first).includes(block))).toBe(false);
      const before = driver.free;
      driver.received(first);
      expect(driver.free).toBe(before + 2);
      expect(driver.scheduler.getByHandle(first)).toBeUndefined();
      expect(driver.scheduler.stats()).toMatchObject({ numLoading: 1, numDraining: 0 });
      expect(driver.blocks(second)).toEqual(held);
      driver.empty();
      expect(driver.abort(first)).toEqual([]);
      driver.received(second);
      driver.run();
      expectText(driver, second, 3);
      expect(driver.ends.get(first)).toEqual(['abort']);
      expect(callbacks(driver, 'x')).toEqual(['finished x abort 2', 'finished x length 3']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('the second has the slot of the first, and a report of the first still is not its own', () => {
    const driver = new RemoteDriver(LOADS);
    const first = driver.loading({ id: 'x', prompt: prompt(9), maxTokens: 3 });
    driver.received(first);
    driver.abort('x');
    const second = driver.loading({ id: 'x', prompt: prompt(9, 1), maxTokens: 3 });
    expect(second % 2 ** 21).toBe(first % 2 ** 21);
    const late = [{ handle: first }];
    expectUnchanged(driver.scheduler, () =>
      driver.scheduler.updateTransfers({
        finishedReceiving: late,
        finishedSending: late,
        failedReceiving: late,
      }),
    );
    driver.empty();
    expect(driver.anomalies).toEqual({ 'stale-handle': 3 });
    driver.received(second);
    driver.run();
    expectText(driver, second, 3);
  });

  it('an abort by id ends the second only, and one that was sent of the first is not sent of the second', () => {
    const driver = new RemoteDriver({ x: { delayFree: true, delayAbort: true } });
    const first = driver.add({ id: 'x', prompt: prompt(9), maxTokens: 1 });
    driver.run(5, () => driver.scheduler.numUnfinished > 0);
    const second = driver.add({ id: 'x', prompt: prompt(9, 1), maxTokens: 8 });
    driver.step();
    driver.sent(first);
    expect(driver.scheduler.getByHandle(first)).toBeUndefined();
    expect(driver.abort('x')).toEqual(['x']);
    expect(driver.ends.get(first)).toEqual(['length']);
    expect(driver.ends.get(second)).toEqual(['abort']);
    expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1 });
    expect(driver.scheduler.stats().anomalies).toEqual({});
    driver.sent(second);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
