// F2, F4, F5, F6, F7: the end of a request whose blocks are still read.
import { describe, expect, it } from 'vitest';
import { allBlocks, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';
import { callbacks, DEPTHS, expectText, expectUnchanged, scheduleWork } from './support.js';

const TWO_RANKS = [[0, 1]];

/** A request that ended with its last token and whose blocks the connector reads, by two ranks. */
function sending(options: ConstructorParameters<typeof RemoteDriver>[1] = {}) {
  const driver = new RemoteDriver({ a: { delayFree: true } }, { reporters: TWO_RANKS, ...options });
  const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
  driver.run(20, () => driver.scheduler.numUnfinished > 0);
  // The plan that tells the workers, and nothing besides.
  driver.step();
  expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, outstanding: { store: { count: 2 } } });
  return { driver, handle };
}

// Pinned by: `getUnfinished` in src/scheduler/state/guards.ts, and behind it `finishDetached` in src/scheduler/life/finish.ts.
describe('F2 an abort of a request that has finished and is being sent', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`changes nothing: one callback, its blocks go back when it was sent, at depth ${pipelineDepth}`, () => {
      const { driver, handle } = sending({ pipelineDepth });
      for (const key of ['a', handle]) {
        expectUnchanged(driver.scheduler, () => {
          expect(driver.abort([key, key])).toEqual([]);
        });
      }
      expect(driver.abortAll()).toEqual([]);
      expect(driver.anomalies).toEqual({ 'abort-unknown': 2, 'abort-finished': 2 });
      driver.sent(handle, 0);
      expect(driver.free).toBeLessThan(allBlocks(driver.scheduler));
      expect(driver.abort(handle)).toEqual([]);
      driver.sent(handle, 1);
      expect(driver.free).toBe(allBlocks(driver.scheduler));
      expectText(driver, handle, 3);
      expect(callbacks(driver, 'a')).toEqual(['finished a length 3']);
      expect(driver.timesFinished('a')).toBe(1);
      expect(driver.abort(handle)).toEqual([]);
      expect(driver.anomalies['stale-handle']).toBe(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: `cancel` in src/scheduler/life/abort.ts: asks once, and frees nothing itself.
describe('F4 nobody will fetch what a finished request keeps', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`its connector is asked to stop, once; only its reports free the blocks, at depth ${pipelineDepth}`, () => {
      const { driver, handle } = sending({ pipelineDepth, reclaim: 'on-confirmation' });
      const held = allBlocks(driver.scheduler) - driver.free;
      expectUnchanged(driver.scheduler, () => {
        for (const key of ['a', handle, 'a', handle]) expect(driver.abort(key)).toEqual([]);
      });
      expect(driver.connector.calls.filter((call) => call.startsWith('cancel'))).toEqual(['cancel a']);
      // Others get all the rest of the pool meanwhile, and nothing of this.
      const other = driver.add({ id: 'b', prompt: prompt(4 * (32 - held) - 4, 1), maxTokens: 2 });
      driver.run(20, () => driver.scheduler.numUnfinished > 0);
      expectText(driver, other, 2);
      driver.sent(handle, 0);
      expect(driver.free).toBe(allBlocks(driver.scheduler) - held);
      driver.sent(handle, 1);
      driver.run();
      expect(callbacks(driver, 'a')).toHaveLength(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
      expect(driver.anomalies).toEqual({});
    });
  }

  it('a running request with the same id is aborted, and the finished one is left alone', () => {
    const { driver, handle } = sending({ reclaim: 'on-confirmation' });
    driver.add({ id: 'a', prompt: prompt(9, 1), maxTokens: 3 });
    expect(driver.abort('a')).toEqual(['a']);
    expect(driver.connector.calls.some((call) => call.startsWith('cancel'))).toBe(false);
    driver.sent(handle, 0, 1);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a connector that throws at it keeps the blocks as before', () => {
    const { driver, handle } = sending({ reclaim: 'on-confirmation' });
    driver.connector.throwing.add('cancel');
    expectUnchanged(driver.scheduler, () => driver.abort('a'));
    expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
    driver.sent(handle, 0, 1);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('without that option it is not asked', () => {
    const { driver, handle } = sending();
    driver.abort(['a', handle]);
    expect(driver.connector.calls.some((call) => call.startsWith('cancel'))).toBe(false);
  });
});

// Pinned by: get and skip in `updatePass` (src/scheduler/update/update-pass.ts).
describe('F5 aborted and stopped in one step', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`ends once, as aborted, and is freed once by the report of the same step, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver({ a: { delayFree: true, delayAbort: true } }, { pipelineDepth });
      const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
      const other = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 4 });
      driver.step();
      while (driver.inFlight.length < pipelineDepth) scheduleWork(driver);
      expect(driver.abort('a')).toEqual(['a']);
      expect(driver.text(handle)).toHaveLength(1);
      driver.report = { finishedSending: [{ handle }] };
      driver.update();
      driver.scheduler.verify();
      expect(driver.last).toEqual(['b:1']);
      expect(driver.text(handle)).toHaveLength(1);
      expect(driver.ends.get(handle)).toEqual(['abort']);
      expect(callbacks(driver, 'a')).toEqual(['finished a abort 3']);
      expect(driver.scheduler.getByHandle(handle)).toBeUndefined();
      expect(driver.anomalies).toEqual({});
      driver.run();
      expectText(driver, other, 4);
      expect(driver.timesFinished('a')).toBe(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: `finishDetached` (src/scheduler/life/finish.ts), the only caller of `handOver`, once for each incarnation.
describe('F6 a connector that would answer otherwise if it were asked again', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`is not asked again: its first answer stands until the report of the same step, at depth ${pipelineDepth}`, () => {
      let asked = 0;
      const script = {
        // The connector drops its state of the request when it is asked first.
        get delayAbort() {
          return asked++ === 0;
        },
      };
      const driver = new RemoteDriver({ a: script }, { pipelineDepth });
      const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
      driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 4 });
      driver.step();
      while (driver.inFlight.length < pipelineDepth) scheduleWork(driver);
      driver.abort('a');
      driver.abort(handle);
      driver.update();
      driver.scheduler.verify();
      expect(asked).toBe(1);
      driver.run(20, () => driver.scheduler.numUnfinished > 0);
      expect(driver.scheduler.stats().numDraining).toBe(1);
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 3);
      driver.sent(handle);
      expect(asked).toBe(1);
      driver.run();
      expect(driver.ends.get(handle)).toEqual(['abort']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: the reclaim deadline in `drain` (src/scheduler/life/finish.ts) and `quarantine`.
describe('F7 a connector keeps blocks, and nobody will ever report them', () => {
  const never = { reporters: TWO_RANKS, deadlines: { reclaim: 50 } };

  for (const how of ['before it was ever scheduled', 'while it runs'] as const) {
    for (const pipelineDepth of DEPTHS) {
      it(`of a request that was aborted ${how}: given up after the deadline, and counted, at depth ${pipelineDepth}`, () => {
        let now = 0;
        const script = { delayAbort: true, delayEmpty: true };
        const driver = new RemoteDriver({ a: script }, { ...never, pipelineDepth, now: () => now });
        const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
        if (how === 'while it runs') driver.step();
        driver.abort('a');
        const held = allBlocks(driver.scheduler) - driver.free;
        while (driver.inFlight.length > 0) driver.update();
        driver.step();
        now = 49;
        driver.step();
        expect(driver.scheduler.hasWork()).toBe(true);
        expect(driver.scheduler.nextDeadline).toBe(50);
        now = 50;
        driver.step();
        driver.scheduler.verify();
        // No work any more, and the blocks are nobody's: not handed out, not forgotten.
        expect(driver.scheduler.hasWork()).toBe(false);
        expect(driver.scheduler.stats()).toMatchObject({
          numDraining: 0,
          numQuarantined: 1,
          quarantinedBlocks: held,
          quarantines: 1,
          freeBlocks: allBlocks(driver.scheduler) - held,
        });
        expect(held).toBe(how === 'while it runs' ? 3 : 0);
        expect(driver.scheduler.fenceTransfers()).toBe(1);
        expect(driver.scheduler.getByHandle(handle)).toBeUndefined();
        expect(leftovers(driver.scheduler)).toEqual([]);
        expect(driver.scheduler.stats().numQuarantined).toBe(0);
      });
    }
  }

  it('a report that comes after all frees what was given up', () => {
    let now = 0;
    const driver = new RemoteDriver({ a: { delayFree: true } }, { ...never, now: () => now });
    const handle = driver.add({ id: 'a', maxTokens: 1 });
    driver.run(20, () => driver.scheduler.numUnfinished > 0);
    now = 50;
    driver.step();
    driver.sent(handle, 0);
    expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 1 });
    driver.sent(handle, 1);
    expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 0 });
    expect(driver.scheduler.stats().anomalies).toEqual({});
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a connector that names a child it does not have counts as failed, and is waited for just as long', () => {
    let now = 0;
    const driver = new RemoteDriver({ a: { delayFree: true, children: [1] } }, { ...never, now: () => now });
    driver.add({ id: 'a', maxTokens: 1 });
    driver.run(20, () => driver.scheduler.numUnfinished > 0);
    expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
    expect(driver.scheduler.stats().outstanding.store.count).toBe(2);
    now = 50;
    driver.step();
    expect(driver.scheduler.hasWork()).toBe(false);
    expect(driver.scheduler.fenceTransfers(0)).toBe(1);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
