// F26, F27, F28, F29, F59: the calls of a connector, and the cost of its errors.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../src/index.js';
import { allBlocks, codeOf, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver, type RemoteOptions } from './remote.js';

const DEPTHS = [1, 2] as const;

/** The calls that report the end of a request to the connector, and their numbers of blocks. */
function ends(driver: RemoteDriver, id: string): string[] {
  return driver.connector.calls.filter((call) => call.startsWith(`finished ${id} `));
}

describe('F26 an abort before the first allocation', () => {
  // Pinned by: finish is the one exit and hands over from every state (end, finish.ts; handOver, hand-over.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: tells the connector, once, with no blocks`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth, strict: true });
      const r = driver.add({ id: 'r', prompt: prompt(12) });
      driver.abort('r');
      expect(driver.connector.calls).toEqual(['new r', 'finished r abort 0']);
      driver.run();
      expect(ends(driver, 'r')).toHaveLength(1);
      expect(driver.ends.get(r)).toEqual(['abort']);
      expect(driver.finished).toEqual(['r']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: a connector that owns it anyway is waited for, and its signal ends it`, () => {
      const driver = new RemoteDriver({}, { pipelineDepth, strict: true });
      driver.connector.instead.finished = () => ({ delayFree: true });
      const r = driver.add({ id: 'r' });
      driver.abort('r');
      expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, rowsInUse: 0 });
      driver.sent(r);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F27 what a lookup took is released when the request dies before its allocation', () => {
  // Pinned by: requestFinished comes exactly once, of never scheduled requests too (handOver, hand-over.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: after an answer "ask again"`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, defer: 3 } }, { pipelineDepth, strict: true });
      driver.add({ id: 'r', prompt: prompt(12) });
      driver.empty();
      driver.empty();
      driver.abort('r');
      expect(driver.connector.drain()).toEqual(['new r', 'match r 0', 'match r 0', 'finished r abort 0']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: when it did not fit`, () => {
      const scripts = { r: { ext: 8 } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, numBlocks: 5, strict: true });
      const big = driver.add({ id: 'big', prompt: prompt(12), maxTokens: 4 });
      driver.step();
      driver.add({ id: 'r', prompt: prompt(12, 1) });
      driver.step();
      driver.abort('r');
      expect(driver.connector.drain()).toContain('match r 0');
      expect(driver.connector.calls).toEqual([]);
      driver.run();
      expect(driver.ends.get(big)).toEqual(['length']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: when the connector itself failed at the allocation`, () => {
      const driver = new RemoteDriver({ r: { ext: 8 } }, { pipelineDepth });
      driver.connector.throwing.add('alloc');
      driver.add({ id: 'r', prompt: prompt(12) });
      driver.step();
      expect(ends(driver, 'r')).toHaveLength(1);
      driver.run();
      expect(driver.scheduler.stats().cachedBlocks).toBe(0);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F28 a connector that throws, or answers nonsense', () => {
  // Pinned by: one exception boundary around every question (ask, ask-connector.ts), checked answers (askMatch, askFinished).
  /** One request that the connector fails at, beside one that has nothing to do with it. */
  function failing(method: string, options: Partial<SchedulerOptions> & RemoteOptions = {}): RemoteDriver {
    const scripts = { bad: { ext: 8, async: true } };
    const driver = new RemoteDriver(scripts, options);
    driver.connector.during = (called, request) => {
      if (called === method && (request === null || request.id === 'bad')) throw new Error('planted');
    };
    return driver;
  }

  for (const pipelineDepth of DEPTHS) {
    for (const method of ['new', 'match', 'alloc']) {
      it(`depth ${pipelineDepth}: ${method} costs the request that it was called for`, () => {
        const driver = failing(method, { pipelineDepth });
        const bad = driver.add({ id: 'bad', prompt: prompt(9), maxTokens: 3 });
        const good = driver.add({ id: 'good', prompt: prompt(9, 1), maxTokens: 3 });
        driver.run();
        expect(driver.ends.get(bad)).toEqual(['error']);
        expect(driver.text(good)).toEqual(driver.model.text(good, 3));
        expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }

    it(`depth ${pipelineDepth}: requestFinished counts as "I own it": every rank of every child is waited for`, () => {
      const driver = failing('finished', { pipelineDepth, reporters: [[0], [0, 1]] });
      const bad = driver.add({ id: 'bad', prompt: prompt(9), maxTokens: 3 });
      driver.empty();
      driver.abort('bad');
      expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
      expect(driver.scheduler.stats().outstanding).toMatchObject({ load: { count: 1 }, store: { count: 3 } });
      driver.received(bad);
      driver.sent(bad, { handle: bad, child: 1, rank: 1 });
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      driver.sent(bad, { handle: bad, child: 1, rank: 0 }, { handle: bad, child: 0, rank: 0 });
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
      expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
    });

    it(`depth ${pipelineDepth}: buildMetadata costs the loads of that plan, which never begin`, () => {
      const driver = failing('metadata', { pipelineDepth });
      const bad = driver.add({ id: 'bad', prompt: prompt(9), maxTokens: 3 });
      const good = driver.add({ id: 'good', prompt: prompt(9, 1), maxTokens: 3 });
      driver.run();
      expect(driver.ends.get(bad)).toEqual(['error']);
      expect(driver.text(good)).toEqual(driver.model.text(good, 3));
      // Nothing writes its blocks, so they are not waited for.
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: buildMetadata with a synchronous load: what was to be read is not there`, () => {
      for (const loadFailurePolicy of ['fail', 'recompute'] as const) {
        const scripts = { r: { ext: 8 } };
        const driver = new RemoteDriver(scripts, { pipelineDepth, loadFailurePolicy });
        driver.broken = [0, 1];
        driver.connector.throwing.add('metadata');
        const r = driver.add({ id: 'r', prompt: prompt(12), maxTokens: 3 });
        driver.step();
        driver.connector.throwing.clear();
        driver.run();
        expect(driver.ends.get(r)).toEqual(loadFailurePolicy === 'fail' ? ['error'] : ['length']);
        expect(driver.text(r)).toEqual(loadFailurePolicy === 'fail' ? [] : driver.model.text(r, 3));
        expect(leftovers(driver.scheduler)).toEqual([]);
      }
    });

    it(`depth ${pipelineDepth}: updateConnectorOutput costs nothing: the reports are taken`, () => {
      const driver = failing('output', { pipelineDepth });
      const bad = driver.add({ id: 'bad', prompt: prompt(9), maxTokens: 1 });
      driver.empty();
      driver.received(bad);
      driver.run();
      expect(driver.text(bad)).toEqual(driver.model.text(bad, 1));
      expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  for (const broken of ['buildMetadata', 'every load']) {
    it(`recompute, and ${broken} fails for ever: the request computes, or ends; it does not ask for ever`, () => {
      const scripts = { r: { ext: 8, async: true } };
      const driver = new RemoteDriver(scripts, { loadFailurePolicy: 'recompute', deadlines: { load: 50 } });
      if (broken === 'buildMetadata') driver.connector.throwing.add('metadata');
      const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 1 });
      for (let i = 0; i < 200 && driver.ends.get(r)?.length === 0; i++) {
        const plan = driver.schedule();
        const failed = [{ handle: r }];
        if (driver.request(r).load !== null)
          driver.report = { failedReceiving: failed, finishedReceiving: failed };
        driver.update(plan);
      }
      expect(driver.ends.get(r)).toHaveLength(1);
    });
  }

  it('hasPendingWork that throws does not keep the engine awake', () => {
    const driver = failing('pending');
    expect(driver.scheduler.hasWork()).toBe(false);
    expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
  });

  it('cancelSending and resetCache that throw are answers too', () => {
    const scripts = { r: { delayFree: true } };
    const driver = new RemoteDriver(scripts, { reclaim: 'on-confirmation' });
    for (const method of ['cancel', 'reset']) driver.connector.throwing.add(method);
    const r = driver.add({ id: 'r', maxTokens: 1 });
    driver.step();
    driver.abort(r);
    driver.sent(r);
    expect(driver.scheduler.resetPrefixCache({ resetConnector: true })).toMatchObject({
      ok: false,
      local: true,
      connector: false,
    });
    expect(driver.anomalies).toEqual({ 'connector-failed': 2 });
  });

  const NONSENSE: [string, unknown][] = [
    ['no object', null],
    ['a count that is none', { numTokens: 'many', async: false }],
    ['a negative count', { numTokens: -4, async: true }],
    ['more tokens than there are', { numTokens: 10, async: true }],
    ['half a token', { numTokens: 1.5, async: true }],
    ['nothing, asynchronously', { numTokens: 0, async: true }],
    ['no word on async', { numTokens: 4 }],
    ['a child that it has not', { numTokens: 4, async: true, child: 1 }],
    ['a getter that throws', Object.defineProperty({}, 'numTokens', { get: () => JSON.parse('{') })],
  ];
  for (const [what, answer] of NONSENSE) {
    it(`a match of ${what} costs its request, and leaves nothing behind`, () => {
      const driver = new RemoteDriver({});
      driver.connector.instead.match = ({ id }) => (id === 'bad' ? answer : { numTokens: 0, async: false });
      const bad = driver.add({ id: 'bad', prompt: prompt(9) });
      const other = driver.add({ id: 'other', prompt: prompt(9, 1), maxTokens: 2 });
      driver.run();
      expect(driver.ends.get(bad)).toEqual(['error']);
      expect(driver.text(other)).toEqual(driver.model.text(other, 2));
      expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('an end that is answered with nonsense is owned until the ranks have reported', () => {
    for (const answer of [
      null,
      {},
      { delayFree: 1 },
      { delayFree: true, children: [] },
      { delayFree: true, children: [3] },
    ]) {
      const driver = new RemoteDriver({});
      driver.connector.instead.finished = () => answer;
      const r = driver.add({ id: 'r', maxTokens: 1 });
      driver.step();
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      driver.sent(r);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
      expect(driver.anomalies).toEqual({ 'connector-failed': 1 });
    }
  });

  it('strict: the call in which it failed throws at its end, with nothing half done', () => {
    const driver = failing('match', { strict: true });
    const bad = driver.add({ id: 'bad', prompt: prompt(9) });
    const good = driver.add({ id: 'good', prompt: prompt(9, 1), maxTokens: 2 });
    expect(codeOf(() => driver.schedule())).toBe('ERR_BLOCKSTEP_ANOMALY');
    driver.scheduler.verify();
    expect(driver.scheduler.getByHandle(bad)).toBeUndefined();
    expect(driver.scheduler.getByHandle(good)?.status).toBe('RUNNING');
  });

  it('what it calls back is refused, but for abort', () => {
    const driver = new RemoteDriver({ r: { ext: 8, async: true } });
    const refused: string[] = [];
    driver.connector.during = (method, request) => {
      if (method !== 'alloc' || request === null) return;
      refused.push(codeOf(() => driver.scheduler.schedule()));
      refused.push(codeOf(() => driver.scheduler.updateTransfers({})));
      refused.push(codeOf(() => driver.scheduler.fenceTransfers()));
      driver.scheduler.abort(request.handle);
    };
    const r = driver.loading({ id: 'r', prompt: prompt(12) });
    expect(refused).toEqual(new Array(3).fill('ERR_BLOCKSTEP_REENTRANT'));
    driver.empty();
    expect(driver.request(r).finishReason).toBe('abort');
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
    driver.received(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('F59 an abort cleans up the same from every state', () => {
  // Pinned by: finish is the one exit from every state (finish.ts), removal goes by membership (Queues.remove, queues.ts).
  const scripts = { r: { ext: 8, async: true }, d: { defer: 99 } };
  const STATES: Record<string, (driver: RemoteDriver) => number> = {
    added: (driver) => driver.add({ id: 'r', prompt: prompt(9) }),
    deferred: (driver) => driver.loading({ id: 'd', prompt: prompt(9) }),
    loading: (driver) => driver.loading({ id: 'r', prompt: prompt(9) }),
    'loaded, not promoted': (driver) => {
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      driver.received(r);
      return r;
    },
    'promoted and running': (driver) => {
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      driver.received(r);
      driver.step();
      return r;
    },
    running: (driver) => {
      const r = driver.add({ id: 'x', prompt: prompt(9) });
      driver.step();
      return r;
    },
    'in flight': (driver) => {
      const r = driver.add({ id: 'x', prompt: prompt(9) });
      driver.schedule();
      return r;
    },
    preempted: (driver) => {
      const r = driver.add({ id: 'x', prompt: prompt(9) });
      driver.step();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      return r;
    },
    'loading after a preemption': (driver) => {
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      driver.received(r);
      driver.step();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      while (driver.inFlight.length > 0) driver.update();
      driver.schedule();
      expect(driver.request(r).status).toBe('WAITING_FOR_REMOTE_KVS');
      return r;
    },
  };
  for (const pipelineDepth of DEPTHS) {
    for (const [state, reach] of Object.entries(STATES)) {
      it(`depth ${pipelineDepth}: ${state}`, () => {
        const driver = new RemoteDriver(scripts, { pipelineDepth });
        const handle = reach(driver);
        const { id } = driver.request(handle);
        const isLoading = driver.request(handle).status === 'WAITING_FOR_REMOTE_KVS';
        const owes = driver.scheduler.stats().outstanding.load.count;
        const known = driver.text(handle).length;
        expect(driver.abort(id)).toEqual([id]);
        driver.scheduler.verify();
        expect(driver.scheduler.stats()).toMatchObject({ numLoading: 0, numDraining: owes });
        expect(owes === 1).toBe(isLoading && state !== 'loaded, not promoted');
        // The id is free at once.
        const again = driver.add({ id, prompt: prompt(5, 7), maxTokens: 1 });
        driver.abort(again);
        if (owes > 0) driver.received(handle);
        driver.run();
        expect(driver.text(handle)).toHaveLength(known);
        expect(driver.ends.get(handle)).toEqual(['abort']);
        expect(ends(driver, id)).toHaveLength(2);
        expect(driver.finishedHandles).toEqual([handle, again]);
        expect(driver.anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }
});

describe('F29 a session that was preempted while its answer came, and whose connector says "ask again"', () => {
  // Pinned by: `leaveConnector` in src/scheduler/life/chunks.ts.
  for (const queued of [false, true]) {
    it(`chunk queued: ${queued}: waits for its connector no more when the answer has ended`, () => {
      const driver = new RemoteDriver(
        {},
        { pipelineDepth: 3, numBlocks: 7, deadlines: { load: 10, streamingInput: 0 } },
        {
          tokenAt: (_input, position, root) => (position === 12 ? 5 : 1000 + ((root + 31 * position) % 5000)),
        },
      );
      driver.add({ id: 'first', prompt: prompt(7, 1), maxTokens: 6 });
      const s = driver.add({
        id: 's',
        prompt: prompt(9),
        maxTokens: 12,
        eosTokenId: 5,
        resumable: true,
      });
      const chunk = { prompt: prompt(2, 7), maxTokens: 2, ignoreEos: true };
      if (queued) driver.addChunk(s, chunk);
      while (driver.scheduler.stats().numPreemptions === 0) {
        if (driver.inFlight.length === 2) driver.update();
        driver.schedule();
      }
      expect(driver.request(s).status).toBe('PREEMPTED');
      driver.connector.instead.match = () => ({ numTokens: null, async: false });
      driver.schedule();
      expect(driver.scheduler.nextDeadline).toBeLessThan(Number.POSITIVE_INFINITY);
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.text(s)).toHaveLength(4);
      expect(driver.scheduler.nextDeadline).toBe(Number.POSITIVE_INFINITY);
      driver.scheduler.verify();
    });
  }
});
