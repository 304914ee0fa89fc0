// F10, F12, F13, F14, F17, F18: aborts and deadlines of loads.
import { describe, expect, it } from 'vitest';
import type { ConnectorOutput } from '../../src/connector.js';
import { allBlocks, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';
import { callbacks, DEPTHS, expectText, orders, scheduleWork } from './support.js';

const TWO_RANKS = [[0, 1]];

/** A request that needs every block that is free, and runs for some steps. */
function takeTheRest(driver: RemoteDriver): number {
  const room = 4 * driver.free;
  return driver.add({ id: 'rest', prompt: prompt(room - 8, 1), maxTokens: 8 });
}

/** Blocks that neither this request holds nor anybody can get. */
function heldBesides(driver: RemoteDriver, handle: number): number {
  return allBlocks(driver.scheduler) - driver.free - driver.blocks(handle).length;
}

function expectApart(driver: RemoteDriver, one: number, other: number): void {
  const held = new Set(driver.blocks(one));
  expect(driver.blocks(other).filter((block) => held.has(block))).toEqual([]);
}

// Pinned by: `Outstanding`, and `releaseIfDrained` in src/scheduler/life/finish.ts, which frees when it is empty.
describe('F10 receive and send both outstanding on an aborted request', () => {
  const EVENTS: ConnectorOutput[] = [0, 1].flatMap((rank) => [
    { finishedReceiving: [{ handle: 0, rank }] },
    { finishedSending: [{ handle: 0, rank }] },
  ]);

  function aborted(pipelineDepth: 1 | 2) {
    const script = { r: { ext: 8, async: true, delayAbort: true } };
    const driver = new RemoteDriver(script, { pipelineDepth, reporters: TWO_RANKS });
    const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
    expect(driver.abort('r')).toEqual(['r']);
    const { load, store } = driver.scheduler.stats().outstanding;
    expect([load.count, store.count]).toEqual([2, 2]);
    const rest = takeTheRest(driver);
    driver.step();
    driver.step();
    expectApart(driver, handle, rest);
    return { driver, handle, rest };
  }

  function named(handle: number, { finishedReceiving, finishedSending }: ConnectorOutput): ConnectorOutput {
    const name = (list: ConnectorOutput['finishedSending']) =>
      (list ?? []).map((each) => ({ ...each, handle }));
    return { finishedReceiving: name(finishedReceiving), finishedSending: name(finishedSending) };
  }

  for (const pipelineDepth of DEPTHS) {
    it(`its blocks go back with the last of four reports, in every order, at depth ${pipelineDepth}`, () => {
      for (const [i, order] of orders(EVENTS).entries()) {
        const { driver, handle, rest } = aborted(pipelineDepth);
        for (const [at, event] of order.entries()) {
          expect([i, at, heldBesides(driver, rest)]).toEqual([i, at, 2]);
          expect(driver.scheduler.stats().numDraining).toBe(1);
          // The peer writes until it has reported that it is done.
          if (event.finishedReceiving !== undefined) driver.land(handle);
          driver.report = named(handle, event);
          driver.step();
          driver.scheduler.verify();
        }
        expect([i, heldBesides(driver, rest)]).toEqual([i, 0]);
        driver.run();
        expectText(driver, rest, 8);
        expect(callbacks(driver, 'r')).toEqual(['finished r abort 2']);
        expect(driver.anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      }
    });

    it(`all four reports in one step, at depth ${pipelineDepth}`, () => {
      const { driver, handle, rest } = aborted(pipelineDepth);
      const all = [0, 1].map((rank) => ({ handle, rank }));
      driver.report = { finishedReceiving: all, finishedSending: all };
      driver.step();
      expect(heldBesides(driver, rest)).toBe(0);
      driver.run();
      expectText(driver, rest, 8);
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: `applyFailed` and `applyInvalid` (src/scheduler/loads/load-failure.ts), which end no use; only reports of ranks do.
describe('F12 a part of a load failed while its other part still writes', () => {
  const PARTS = {
    'as a whole': (handle: number) => ({ failedReceiving: [{ handle, rank: 0 }] }),
    'by a block': (handle: number, block: number) => ({ invalidBlocks: [{ block, handle }] }),
  };

  for (const [how, failure] of Object.entries(PARTS)) {
    for (const loadFailurePolicy of ['fail', 'recompute'] as const) {
      for (const pipelineDepth of DEPTHS) {
        it(`${how}, policy ${loadFailurePolicy}: nobody gets its blocks before both are done, at depth ${pipelineDepth}`, () => {
          const driver = new RemoteDriver(
            { r: { ext: 8, async: true, oneshot: true } },
            { pipelineDepth, reporters: TWO_RANKS, loadFailurePolicy },
          );
          const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
          const held = driver.blocks(handle);
          driver.say({ ...failure(handle, held[0]), finishedReceiving: [{ handle, rank: 0 }] });
          expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
          const rest = takeTheRest(driver);
          driver.step();
          driver.step();
          expect(driver.scheduler.core.blocks(driver.request(handle).slot)).toEqual(Int32Array.from(held));
          expectApart(driver, handle, rest);
          driver.land(handle);
          driver.say({ finishedReceiving: [{ handle, rank: 1 }] });
          driver.run();
          expectText(driver, rest, 8);
          if (loadFailurePolicy === 'fail') expect(driver.ends.get(handle)).toEqual(['error']);
          else expectText(driver, handle, 3);
          expect(driver.scheduler.stats().failedLoads).toBe(1);
          expect(driver.anomalies).toEqual({});
          expect(leftovers(driver.scheduler)).toEqual([]);
        });
      }
    }
  }
});

// Pinned by: `load` uses that outlive the request, `end` in src/scheduler/life/finish.ts.
describe('F13 an abort while its KV is being loaded', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`its blocks are nobody else's until the load has ended, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth });
      const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
      expect(driver.abort('r')).toEqual(['r']);
      const rest = takeTheRest(driver);
      driver.step();
      driver.step();
      expect(heldBesides(driver, rest)).toBe(2);
      expectApart(driver, handle, rest);
      // The remote write lands after all.
      driver.land(handle);
      driver.run(50, () => driver.scheduler.numUnfinished > 0);
      expectText(driver, rest, 8);
      // One block more than there is without those.
      const next = driver.add({ id: 'next', prompt: prompt(121, 2), maxTokens: 1 });
      driver.empty();
      expect(driver.scheduler.numWaiting).toBe(1);
      driver.received(handle);
      scheduleWork(driver);
      driver.run();
      expectText(driver, next, 1);
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: the outstanding uses delay the free, never the status; `leaveLoading` in src/scheduler/life/loading.ts.
describe('F14 an abort after its KV was loaded and before it was scheduled', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`gives the blocks back at once, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver(
        { r: { ext: 8, async: true } },
        { pipelineDepth, reporters: TWO_RANKS },
      );
      const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
      driver.received(handle, 0, 1);
      expect(driver.abort('r')).toEqual(['r']);
      driver.scheduler.verify();
      expect(driver.scheduler.getByHandle(handle)).toBeUndefined();
      expect(driver.scheduler.stats()).toMatchObject({ numLoading: 0, numDraining: 0, cachedBlocks: 0 });
      expect(driver.scheduler.nextDeadline).toBe(Number.POSITIVE_INFINITY);
      expect(leftovers(driver.scheduler)).toEqual([]);
      driver.step();
      expect(driver.scheduler.hasWork()).toBe(false);
      expect(callbacks(driver, 'r')).toEqual(['finished r abort 2']);
    });

    it(`waits only for the rank that has not reported, at depth ${pipelineDepth}`, () => {
      const driver = new RemoteDriver(
        { r: { ext: 8, async: true } },
        { pipelineDepth, reporters: TWO_RANKS },
      );
      const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
      driver.received(handle, 1);
      driver.abort('r');
      expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, outstanding: { load: { count: 1 } } });
      driver.received(handle, 0);
      driver.step();
      expect(driver.scheduler.hasWork()).toBe(false);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: the deadline that `startLoading` sets (src/scheduler/loads/begin-load.ts), and `endExpired`.
describe('F17 a load that never ends', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`ends its request with error after the deadline; its blocks wait for the report, at depth ${pipelineDepth}`, () => {
      let now = 0;
      const driver = new RemoteDriver(
        { r: { ext: 8, async: true } },
        { pipelineDepth, deadlines: { load: 100 }, now: () => now },
      );
      const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
      const request = driver.request(handle);
      expect(driver.scheduler.nextDeadline).toBe(100);
      now = 99;
      driver.empty();
      expect(driver.scheduler.stats().numLoading).toBe(1);
      now = 100;
      driver.empty();
      driver.scheduler.verify();
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(request.failure).toBe('waited 100 ms for its KV to be loaded');
      expect(driver.scheduler.stats()).toMatchObject({ numLoading: 0, numDraining: 1, loadTimeouts: 1 });
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      driver.received(handle);
      driver.step();
      expect(driver.scheduler.hasWork()).toBe(false);
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('holds nobody up behind it', () => {
    const driver = new RemoteDriver({ r: { ext: 8, async: true } });
    driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
    const other = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 3 });
    driver.run(20, () => driver.scheduler.numUnfinished > 1);
    expectText(driver, other, 3);
  });

  it('one that ended in time is not held against a request that is still to be admitted', () => {
    let now = 0;
    const driver = new RemoteDriver(
      { r: { ext: 8, async: true } },
      { maxNumSeqs: 1, deadlines: { load: 100 }, now: () => now },
    );
    const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
    const busy = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 5 });
    driver.step();
    driver.received(handle);
    now = 200;
    driver.run();
    expectText(driver, busy, 5);
    expectText(driver, handle, 3);
  });
});

// Pinned by: the reclaim deadline and `quarantine` (src/scheduler/life/finish.ts); `fenceTransfers` (src/scheduler/loads/fence.ts).
describe('F18 the load of an aborted request is never reported', () => {
  const TWO_CHILDREN = [[0], [0]];

  for (const pipelineDepth of DEPTHS) {
    for (const how of ['by a report after all', 'by a fence'] as const) {
      it(`its blocks are given up, never handed out, and come back ${how}, at depth ${pipelineDepth}`, () => {
        let now = 0;
        const driver = new RemoteDriver(
          { r: { ext: 8, async: true } },
          { pipelineDepth, reporters: TWO_CHILDREN, deadlines: { reclaim: 60 }, now: () => now },
        );
        const handle = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
        driver.abort('r');
        driver.step();
        expect(driver.scheduler.hasWork()).toBe(true);
        now = 60;
        driver.empty();
        driver.scheduler.verify();
        expect(driver.scheduler.hasWork()).toBe(false);
        expect(driver.scheduler.nextDeadline).toBe(Number.POSITIVE_INFINITY);
        expect(driver.scheduler.stats()).toMatchObject({
          numDraining: 0,
          numQuarantined: 1,
          quarantinedBlocks: 2,
          quarantines: 1,
        });
        const next = driver.add({ id: 'next', prompt: prompt(121, 2), maxTokens: 1 });
        driver.empty();
        // The write lands late, and hits nobody.
        driver.land(handle);
        if (how === 'by a fence') {
          expect(driver.scheduler.fenceTransfers(1)).toBe(0);
          driver.empty();
          expect(driver.scheduler.fenceTransfers(0)).toBe(1);
        } else driver.received(handle);
        scheduleWork(driver);
        driver.run();
        expectText(driver, next, 1);
        expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 0 });
        expect(driver.scheduler.stats().anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }
});

describe('F18 a load that is fenced while somebody else holds its blocks', () => {
  // Pinned by: `loseOrEnd` (fence.ts).
  it.each(['fail', 'recompute'] as const)(
    '%s: it has failed, whoever still has to let go',
    (loadFailurePolicy) => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true, oneshot: true } }, { loadFailurePolicy });
      const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      driver.scheduler.hold(r, 'load', 'job');
      driver.empty();
      driver.scheduler.fenceTransfers();
      driver.scheduler.complete(r, 'load', 'job');
      driver.run();
      expect(driver.ends.get(r)).toEqual([loadFailurePolicy === 'fail' ? 'error' : 'length']);
      expect(driver.text(r)).toEqual(loadFailurePolicy === 'fail' ? [] : driver.model.text(r, 2));
      expect(leftovers(driver.scheduler)).toEqual([]);
    },
  );
});
