// F33, F34, F55, F56, F57: loads that hold all blocks, finished objects in a queue, limits,
// requests larger than the pool.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../src/index.js';
import type { WithRules } from '../../src/scheduler/options/single-rules.js';
import type { Script } from '../support/connector/scripted-connector.js';
import { allBlocks, codeOf, leftovers, prompt } from '../support/driver.js';
import { seizeQueues } from '../support/hostile-queues.js';
import { RemoteDriver } from './remote.js';

const DEPTHS = [1, 2] as const;

describe('F33 loads hold all blocks, and none of them can compute its next token', () => {
  // Pinned by: reclaimStuckLoad (reclaim.ts), deviation admitStuckLoads.
  /** Ten blocks; each of five requests loads two, and needs one more. */
  function stuck(options: Partial<WithRules<SchedulerOptions>> = {}, script: Script = {}) {
    const ids = ['a', 'b', 'c', 'd', 'e'];
    const scripts = Object.fromEntries(ids.map((id) => [id, { ext: 8, async: true, ...script }]));
    const driver = new RemoteDriver(scripts, {
      numBlocks: 11,
      reserveFullIsl: false,
      loadReservation: false,
      ...options,
    });
    const handles = ids.map((id, i) => driver.add({ id, prompt: prompt(9, i), maxTokens: 3 }));
    driver.empty();
    expect(driver.free).toBe(0);
    for (const handle of handles) driver.received(handle);
    return { driver, handles };
  }

  for (const pipelineDepth of DEPTHS) {
    for (const policy of ['fcfs', 'priority'] as const) {
      it(`on, ${policy}, depth ${pipelineDepth}: the first in line runs at once, and all of them in the end`, () => {
        const { driver, handles } = stuck({ pipelineDepth, policy });
        expect(driver.ids(driver.schedule())[0]).toBe('a');
        driver.scheduler.verify();
        expect(driver.scheduler.stats().loadsReclaimed).toBe(1);
        for (let i = 0; i < 60 && driver.scheduler.numUnfinished > 0; i++) {
          if (driver.inFlight.length > 0) driver.update();
          for (const handle of handles) {
            if (driver.scheduler.getByHandle(handle)?.status !== 'WAITING_FOR_REMOTE_KVS') continue;
            if (driver.request(handle).outstanding?.hasAny('load')) driver.received(handle);
          }
          if (driver.inFlight.length < pipelineDepth) driver.schedule();
        }
        driver.run();
        for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 3));
        expect(driver.anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }

    it(`on, depth ${pipelineDepth}: what was offered once is computed`, () => {
      const { driver, handles } = stuck({ pipelineDepth }, { oneshot: true });
      driver.run(100);
      for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 3));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('on: blocks that are still written are never taken', () => {
    const ids = ['a', 'b', 'c'];
    const scripts = Object.fromEntries(ids.map((id) => [id, { ext: 8, async: true }]));
    const driver = new RemoteDriver(scripts, {
      numBlocks: 7,
      reserveFullIsl: false,
      loadReservation: false,
      strict: true,
    });
    const [a, b, c] = ids.map((id, i) => driver.add({ id, prompt: prompt(9, i), maxTokens: 1 }));
    driver.empty();
    driver.received(a);
    for (let i = 0; i < 5; i++) driver.empty();
    expect([driver.blocks(b), driver.blocks(c)]).toEqual([
      [3, 4],
      [5, 6],
    ]);
    driver.received(c);
    expect(driver.ids(driver.schedule())).toEqual(['a']);
    expect(driver.blocks(b)).toEqual([3, 4]);
    driver.update();
    driver.received(b);
    driver.run(20, () => driver.scheduler.numUnfinished > 1);
    driver.received(c);
    driver.run();
    for (const handle of [a, b, c]) expect(driver.text(handle)).toEqual(driver.model.text(handle, 1));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  // Pinned by: `canReclaim` (reclaim.ts): the blocks that a session holds decide, not the tokens
  // that it has computed.
  it.each(['fcfs', 'priority'] as const)(
    '%s: a session whose load failed as a whole gives its blocks back',
    (policy) => {
      const scripts = { s: { ext: 16, async: true } };
      const options = { numBlocks: 6, maxModelLen: 24, loadFailurePolicy: 'recompute' as const, policy };
      const driver = new RemoteDriver(scripts, { ...options, reserveFullIsl: false });
      const s = driver.loading({ id: 's', prompt: prompt(17), maxTokens: 1, resumable: true, priority: 1 });
      const urgent = driver.add({ id: 'u', prompt: prompt(15, 1), maxTokens: 2, priority: 0 });
      driver.say({ failedReceiving: [{ handle: s }], finishedReceiving: [{ handle: s }] });
      if (policy === 'priority') expect(driver.request(s).numComputedTokens).toBe(0);
      for (let i = 0; i < 30 && driver.ends.get(urgent)?.length === 0; i++) {
        driver.step();
        const { status, load } = driver.request(s);
        // The connector loads it once more, if it is asked.
        if (status === 'WAITING_FOR_REMOTE_KVS' && load?.failed === false) driver.received(s);
      }
      expect(driver.ends.get(urgent)).toEqual(['length']);
      expect(driver.text(urgent)).toEqual(driver.model.text(urgent, 2));
    },
  );

  it('on: one whose blocks a transfer uses would give none, so it keeps them', () => {
    const { driver, handles } = stuck();
    const [, , , d, e] = handles;
    driver.scheduler.hold(e, 'store', 'job');
    const held = driver.blocks(e);
    expect(driver.ids(driver.schedule())).toEqual(['a', 'b']);
    expect(driver.blocks(e)).toEqual(held);
    expect(driver.blocks(d)).toEqual([]);
    expect(driver.scheduler.stats().loadsReclaimed).toBe(1);
    driver.scheduler.complete(e, 'store', 'job');
    driver.scheduler.verify();
  });

  it('on: while something runs, which will give blocks back, nobody loses what was loaded', () => {
    const scripts = { b: { ext: 8, async: true }, c: { ext: 8, async: true } };
    const driver = new RemoteDriver(scripts, {
      numBlocks: 7,
      reserveFullIsl: false,
      loadReservation: false,
    });
    const a = driver.add({ id: 'a', prompt: prompt(5, 4), maxTokens: 2 });
    const [b, c] = ['b', 'c'].map((id, i) => driver.add({ id, prompt: prompt(9, i), maxTokens: 1 }));
    driver.step();
    for (const handle of [b, c]) driver.received(handle);
    driver.run();
    expect(driver.scheduler.stats().loadsReclaimed).toBe(0);
    for (const [handle, count] of [
      [a, 2],
      [b, 1],
      [c, 1],
    ]) {
      expect(driver.text(handle)).toEqual(driver.model.text(handle, count));
    }
  });

  it('with room reserved for whole prompts, nobody is admitted to load who could not run', () => {
    const { driver, handles } = (() => {
      const ids = ['a', 'b', 'c', 'd', 'e'];
      const scripts = Object.fromEntries(ids.map((id) => [id, { ext: 8, async: true }]));
      const made = new RemoteDriver(scripts, { numBlocks: 11, loadReservation: false });
      return {
        driver: made,
        handles: ids.map((id, i) => made.add({ id, prompt: prompt(9, i), maxTokens: 3 })),
      };
    })();
    driver.empty();
    expect(driver.scheduler.stats()).toMatchObject({ numLoading: 4, numWaiting: 1, freeBlocks: 2 });
    for (const handle of handles.slice(0, 4)) driver.received(handle);
    driver.run(20, () => driver.scheduler.numUnfinished > 1);
    driver.received(handles[4]);
    driver.run();
    expect(driver.scheduler.stats().loadsReclaimed).toBe(0);
    for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 3));
  });
});

describe('F34 a finished object that still stands in a queue', () => {
  // Pinned by: dropZombie, at the head of the line (guards.ts; nextInLine, line.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: is dropped when a step reaches it, also one whose load is done`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth });
      const queues = seizeQueues(driver);
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      driver.received(r);
      const request = driver.request(r);
      driver.abort('r');
      queues.pushSkipped(request);
      const other = driver.add({ id: 'other', prompt: prompt(9, 1), maxTokens: 2 });
      const plan = driver.schedule();
      expect(driver.ids(plan)).toEqual(['other']);
      driver.run();
      expect(driver.anomalies).toEqual({ 'purged-untracked': 1 });
      expect(driver.text(other)).toEqual(driver.model.text(other, 2));
      expect(driver.ends.get(r)).toEqual(['abort']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: a draining one that is put back is not admitted, and keeps its blocks`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth });
      const queues = seizeQueues(driver);
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      const request = driver.request(r);
      driver.abort('r');
      request.status = 'WAITING';
      queues.pushWaiting(request);
      driver.schedule();
      expect(driver.anomalies).toEqual({ 'purged-untracked': 1 });
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      request.status = 'FINISHED';
      driver.received(r);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F55 requests that load are counted from the state', () => {
  // Pinned by: numLoading is the size of the set itself (readStats, stats.ts; leaveLoading, loading.ts).
  const WAYS: Record<string, (driver: RemoteDriver, r: number) => void> = {
    'an abort': (driver, r) => {
      driver.abort(r);
      driver.received(r);
    },
    'an abort after the report': (driver, r) => {
      driver.received(r);
      driver.abort(r);
    },
    'a failure': (driver, r) => {
      driver.say({ failedReceiving: [{ handle: r }], finishedReceiving: [{ handle: r }] });
    },
    'a fence': (driver) => {
      driver.scheduler.fenceTransfers();
    },
    'a deadline': (driver, r) => {
      for (let i = 0; i < 20 && driver.scheduler.stats().numLoading > 0; i++) driver.schedule();
      driver.received(r);
    },
    'a promotion': (driver, r) => {
      driver.received(r);
      driver.step();
      driver.abort(r);
    },
  };
  for (const [way, end] of Object.entries(WAYS)) {
    it(`ends with ${way}, and as many as you like can load one after the other`, () => {
      const scripts = { r: { ext: 8, async: true } };
      const options = { maxNumSeqs: 2, deadlines: { load: 8 }, strict: true };
      const driver = new RemoteDriver(scripts, options);
      for (let i = 0; i < 9; i++) {
        const r = driver.loading({ id: 'r', prompt: prompt(9, i) });
        expect(driver.scheduler.stats().numLoading).toBe(1);
        end(driver, r);
        expect(driver.scheduler.stats().numLoading).toBe(0);
        driver.run();
      }
      const other = driver.add({ id: 'other', maxTokens: 2 });
      driver.run();
      expect(driver.ends.get(other)).toEqual(['length']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F56 maxNumSeqs limits what runs, and nothing else', () => {
  // Pinned by: the gate is the length of running (nextInLine, line.ts); residency is a limit of its own, numRows.
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: those that load, drain, are quarantined or idle do not count`, () => {
      const scripts = { l: { ext: 8, async: true }, m: { ext: 8, async: true } };
      const driver = new RemoteDriver(scripts, {
        pipelineDepth,
        maxNumSeqs: 2,
        numRows: 9,
        deadlines: { reclaim: 30, load: 0 },
      });
      const gone = ['g', 'h'].map((id, i) => driver.add({ id, prompt: prompt(5, 20 + i), maxTokens: 1 }));
      for (const handle of gone) driver.scheduler.hold(handle, 'lease', 'peer');
      driver.run(60);
      expect(driver.scheduler.stats().numQuarantined).toBe(2);
      const draining = driver.add({ id: 'd', prompt: prompt(5, 9), maxTokens: 1 });
      driver.scheduler.hold(draining, 'store', 'job');
      driver.step();
      const idle = driver.add({ id: 'i', prompt: prompt(5, 30), maxTokens: 1, resumable: true });
      driver.step();
      for (const id of ['l', 'm']) driver.add({ id, prompt: prompt(9, id.charCodeAt(0)) });
      const runs = ['x', 'y', 'z'].map((id, i) =>
        driver.add({ id, prompt: prompt(5, 40 + i), maxTokens: 3 }),
      );
      const plan = driver.schedule();
      expect(driver.ids(plan)).toEqual(['x', 'y']);
      const stats = driver.scheduler.stats();
      expect(stats).toMatchObject({ numLoading: 2, numRunning: 2, numIdleSessions: 1, numQuarantined: 2 });
      expect(stats.numDraining + stats.numQuarantined).toBe(3);
      driver.update();
      driver.run(20, () => driver.scheduler.stats().finished.length < 6);
      for (const handle of runs) expect(driver.text(handle)).toEqual(driver.model.text(handle, 3));
      void idle;
    });

    it(`depth ${pipelineDepth}: when the rows are all taken admission stops, which is counted, and goes on with a report`, () => {
      const scripts = { l: { ext: 8, async: true }, m: { ext: 8, async: true } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, maxNumSeqs: 2, numRows: 2 });
      const l = driver.add({ id: 'l', prompt: prompt(9, 1), maxTokens: 1 });
      driver.add({ id: 'm', prompt: prompt(9, 2), maxTokens: 1 });
      const x = driver.add({ id: 'x', prompt: prompt(5, 3), maxTokens: 1 });
      driver.empty();
      expect(driver.scheduler.stats()).toMatchObject({ rowStalls: 1, rowsInUse: 2, numRunning: 0 });
      driver.abort('l');
      driver.received(l);
      driver.run(9, () => driver.scheduler.numUnfinished > 1);
      expect(driver.text(x)).toEqual(driver.model.text(x, 1));
    });
  }
});

describe('F57 a request that is larger than the pool', () => {
  // Pinned by: refused when it is added (parseRequest, parse-request.ts), deviation refuseUnfit.
  it('is refused before the connector hears of it, however much that has of it', () => {
    const driver = new RemoteDriver({ r: { ext: 32, async: true } }, { numBlocks: 9, strict: true });
    const add = () => driver.scheduler.add({ id: 'r', prompt: prompt(33), maxTokens: 1 });
    expect(codeOf(add)).toBe('ERR_BLOCKSTEP_UNFIT');
    expect(driver.connector.calls).toEqual([]);
    expect(driver.scheduler.hasWork()).toBe(false);
    const fits = driver.loading({ id: 'r', prompt: prompt(32), maxTokens: 1 });
    driver.received(fits);
    driver.run();
    expect(driver.text(fits)).toEqual(driver.model.text(fits, 1));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('one that fills the pool loads whole, computes its last token and ends, with others behind it', () => {
    for (const pipelineDepth of DEPTHS) {
      const driver = new RemoteDriver({ r: { ext: 32, async: true } }, { pipelineDepth, numBlocks: 9 });
      const r = driver.loading({ id: 'r', prompt: prompt(32), maxTokens: 9 });
      const next = driver.add({ id: 'next', prompt: prompt(9, 1), maxTokens: 2 });
      driver.received(r);
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 1));
      expect(driver.ends.get(r)).toEqual(['length']);
      expect(driver.text(next)).toEqual(driver.model.text(next, 2));
      expect(leftovers(driver.scheduler)).toEqual([]);
    }
  });

  it('or that no step can compute is refused, and ends if it has grown so: others behind it run', () => {
    const limits = { maxModelLen: 12, maxNumBatchedTokens: 12, draftSlots: 2, enableChunkedPrefill: false };
    const driver = new RemoteDriver({}, { ...limits, enablePrefixCaching: false });
    expect(codeOf(() => driver.add({ id: 'r', prompt: prompt(11), maxTokens: 1 }))).toBe(
      'ERR_BLOCKSTEP_UNFIT',
    );
    const grown = driver.add({ id: 'grown', prompt: prompt(9), maxTokens: 3 });
    const next = driver.add({ id: 'next', prompt: prompt(9, 1), maxTokens: 2 });
    driver.step();
    driver.step();
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    driver.run();
    expect(driver.ends.get(grown)).toEqual(['length']);
    expect(driver.text(grown)).toHaveLength(2);
    expect(driver.text(next)).toEqual(driver.model.text(next, 2));
  });
});
