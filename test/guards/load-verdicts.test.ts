// F23, F24, F25, F53, F54: loads that failed, and reports in any order.
import { describe, expect, it } from 'vitest';
import { allBlocks, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';

const DEPTHS = [1, 2] as const;
const POLICIES = ['fail', 'recompute'] as const;

describe('F23 a load fails under a running request whose other transfer is in flight', () => {
  // Pinned by: the outstanding set decides what goes back, not the status (end and releaseIfDrained, finish.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: it ends with error, and its blocks stay until the store has completed`, () => {
      const driver = new RemoteDriver({ r: { ext: 8 } }, { pipelineDepth, strict: true });
      const r = driver.add({ id: 'r', prompt: prompt(12) });
      driver.schedule();
      driver.scheduler.hold(r, 'store', 'job');
      driver.report = { invalidBlocks: [{ block: driver.blocks(r)[1] }] };
      driver.update();
      expect(driver.last).toEqual(['r:0:error']);
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 3);
      expect(driver.scheduler.stats()).toMatchObject({ numRunning: 0, numDraining: 1 });
      driver.scheduler.verify();
      expect(driver.scheduler.complete(r, 'store', 'job')).toBe(true);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
      expect(driver.ends.get(r)).toEqual(['error']);
    });

    it(`depth ${pipelineDepth}: the same where it is the connector that sends, both ranks of it`, () => {
      const scripts = { r: { ext: 8, delayFree: true, delayEmpty: true } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, reporters: [[0, 1]], strict: true });
      const r = driver.add({ id: 'r', prompt: prompt(12) });
      driver.schedule();
      driver.report = { invalidBlocks: [{ block: driver.blocks(r)[0], handle: r }] };
      driver.update();
      // Nothing of it was computed, so nothing is handed over. Its blocks stay out of use all the
      // same.
      expect(driver.connector.drain().at(-1)).toBe('finished r error 0');
      driver.sent(r, 1);
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 3);
      driver.sent(r, 0);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F24 a load that failed is carried by its request, not only by its blocks', () => {
  // Pinned by: failedReceiving, taken before finishedReceiving (applyFailed, load-failure.ts; the order in `update`, update.ts).
  for (const pipelineDepth of DEPTHS) {
    for (const loadFailurePolicy of POLICIES) {
      it(`${loadFailurePolicy}, depth ${pipelineDepth}: an asynchronous one whose blocks nobody names`, () => {
        const scripts = { r: { ext: 12, async: true, oneshot: true } };
        const driver = new RemoteDriver(scripts, { pipelineDepth, loadFailurePolicy, strict: true });
        const r = driver.loading({ id: 'r', prompt: prompt(13), maxTokens: 3 });
        driver.say({ failedReceiving: [{ handle: r }], finishedReceiving: [{ handle: r }] });
        expect(driver.scheduler.stats()).toMatchObject({ failedLoads: 1, cachedBlocks: 0 });
        driver.run();
        expect(driver.text(r)).toEqual(loadFailurePolicy === 'fail' ? [] : driver.model.text(r, 3));
        expect(driver.ends.get(r)).toEqual(loadFailurePolicy === 'fail' ? ['error'] : ['length']);
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }

    it(`recompute, depth ${pipelineDepth}: a synchronous one computes everything itself`, () => {
      const driver = new RemoteDriver({ r: { ext: 12 } }, { pipelineDepth, loadFailurePolicy: 'recompute' });
      driver.broken = [0, 1, 2];
      const r = driver.add({ id: 'r', prompt: prompt(13), maxTokens: 3 });
      const plan = driver.schedule();
      expect(plan.numComputedTokens[0]).toBe(12);
      driver.report = { failedReceiving: [{ handle: r, step: plan.step }] };
      driver.update();
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 3));
      expect(driver.ends.get(r)).toEqual(['length']);
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('the failure of a load counts for that load: one of an earlier step does not lose this one', () => {
    const driver = new RemoteDriver({ r: { ext: 12, async: true } });
    const r = driver.loading({ id: 'r', prompt: prompt(13), maxTokens: 2 });
    const { step } = driver.connector.loadOf(r);
    driver.say({ failedReceiving: [{ handle: r, step: step + 5 }] });
    expect(driver.scheduler.stats().failedLoads).toBe(0);
    driver.received(r);
    driver.run();
    expect(driver.text(r)).toEqual(driver.model.text(r, 2));
  });
});

describe('F25 nothing that a load brings is found before its verdict, and nothing of a bad one ever', () => {
  // Pinned by: asynchronous loads publish at promotion (admit, waiting-pass.ts; endLoading, loading.ts).
  for (const pipelineDepth of DEPTHS) {
    const begun = () => {
      const scripts = { r: { ext: 16, async: true } };
      const driver = new RemoteDriver(scripts, {
        pipelineDepth,
        loadFailurePolicy: 'recompute',
        strict: true,
      });
      return { driver, r: driver.loading({ id: 'r', prompt: prompt(17), maxTokens: 2 }) };
    };
    /** Tokens that a request with the same prompt finds now. */
    const found = (driver: RemoteDriver): number => {
      const probe = driver.add({ id: 'probe', prompt: prompt(17), maxTokens: 1 });
      const hits = driver.scheduler.core.native.match(driver.request(probe).slot, 4);
      driver.abort('probe');
      return hits;
    };

    it(`depth ${pipelineDepth}: not while it loads, not when it has reported; only when it was promoted`, () => {
      const { driver, r } = begun();
      expect(found(driver)).toBe(0);
      driver.received(r);
      expect(found(driver)).toBe(0);
      expect(driver.ids(driver.schedule())).toEqual(['r']);
      expect(found(driver)).toBe(4);
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    });

    it(`depth ${pipelineDepth}: an abort in the middle publishes nothing, neither then nor with the report`, () => {
      const { driver, r } = begun();
      driver.abort('r');
      expect(found(driver)).toBe(0);
      driver.received(r);
      expect(found(driver)).toBe(0);
      expect(driver.scheduler.stats().cachedBlocks).toBe(0);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: of a load with a bad block only what stands before it`, () => {
      const { driver, r } = begun();
      driver.broken = [2];
      driver.land(r);
      driver.say({
        invalidBlocks: [{ block: driver.blocks(r)[2], handle: r }],
        finishedReceiving: [{ handle: r }],
      });
      expect(found(driver)).toBe(0);
      const plan = driver.schedule();
      expect(plan.numComputedTokens[0]).toBe(8);
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    });

    it(`depth ${pipelineDepth}: with the policy fail, nothing of it at all`, () => {
      const scripts = { r: { ext: 16, async: true } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, strict: true });
      const r = driver.loading({ id: 'r', prompt: prompt(17), maxTokens: 2 });
      driver.say({ invalidBlocks: [{ block: driver.blocks(r)[3] }] });
      driver.say({ finishedReceiving: [{ handle: r }] });
      driver.run();
      expect(driver.ends.get(r)).toEqual(['error']);
      expect(driver.scheduler.stats().cachedBlocks).toBe(0);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F53 cancelled and failed are ends too', () => {
  // Pinned by: a use ends with its report, whatever became of it (applyReceived, applySent, reports.ts).
  it('a send that was cancelled gives the blocks back when it says so', () => {
    const driver = new RemoteDriver({ r: { delayFree: true } }, { reclaim: 'on-confirmation', strict: true });
    const r = driver.add({ id: 'r', maxTokens: 1 });
    driver.step();
    driver.abort(r);
    expect(driver.connector.drain()).toContain('cancel r');
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
    driver.sent(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  for (const failing of [[0], [1], [0, 1]]) {
    it(`a load of two ranks that fails on rank ${failing} ends when both have reported`, () => {
      const scripts = { r: { ext: 8, async: true } };
      const driver = new RemoteDriver(scripts, { reporters: [[0, 1]], strict: true });
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      const step = driver.connector.loadOf(r).step;
      for (const rank of failing) driver.say({ failedReceiving: [{ handle: r, rank, step }] });
      expect(driver.scheduler.stats()).toMatchObject({ numLoading: 0, numDraining: 1 });
      driver.say({ finishedReceiving: [{ handle: r, rank: 1, step }] });
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      driver.say({ finishedReceiving: [{ handle: r, rank: 0, step }] });
      driver.run();
      expect(driver.ends.get(r)).toEqual(['error']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F54 reports come in any order', () => {
  // Pinned by: uses are named, each report ends the one that it names (Outstanding, outstanding.ts; reports.ts).
  it('what was sent is told before what was received, for an aborted request', () => {
    const scripts = { r: { ext: 8, async: true, delayAbort: true } };
    for (const order of [['sent', 'received'] as const, ['received', 'sent'] as const]) {
      const driver = new RemoteDriver(scripts, { strict: true });
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      driver.abort('r');
      driver[order[0]](r);
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      driver[order[1]](r);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    }
  });

  it('a later store completes before an earlier one', () => {
    const driver = new RemoteDriver({}, { strict: true });
    const r = driver.add({ id: 'r', maxTokens: 1 });
    for (const job of ['1', '2', '3']) driver.scheduler.hold(r, 'store', job);
    driver.step();
    for (const job of ['3', '1']) driver.scheduler.complete(r, 'store', job);
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
    driver.scheduler.complete(r, 'store', '2');
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a load that fails after its request was aborted is nobody’s fault', () => {
    const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { strict: true });
    const r = driver.loading({ id: 'r', prompt: prompt(9) });
    const [, block] = driver.blocks(r);
    driver.abort('r');
    driver.say({ invalidBlocks: [{ block, handle: r }], finishedReceiving: [{ handle: r }] });
    driver.run();
    expect(driver.anomalies).toEqual({});
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a failure named by request after its abort changes nothing, and its report still frees', () => {
    const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { strict: true });
    const r = driver.loading({ id: 'r', prompt: prompt(9) });
    driver.abort('r');
    driver.say({ failedReceiving: [{ handle: r }] });
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
    driver.say({ finishedReceiving: [{ handle: r }] });
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('nor one that the step itself was to read: nothing of it is found, though it is named by its request alone', () => {
    const driver = new RemoteDriver({ r: { ext: 8 } }, { strict: true });
    driver.broken = [0, 1];
    const r = driver.add({ id: 'r', prompt: prompt(9) });
    const { step } = driver.schedule();
    driver.abort('r');
    const failed = [{ handle: r, step }];
    driver.report = { failedReceiving: failed };
    driver.update();
    const q = driver.add({ id: 'q', prompt: prompt(9), maxTokens: 1 });
    driver.run();
    expect(driver.text(q)).toEqual(driver.model.text(q, 1));
    expect(driver.anomalies).toEqual({});
  });

  /** Loaded once, preempted by force, and loading again. */
  function loadingAgain(): { driver: RemoteDriver; r: number; first: number } {
    const driver = new RemoteDriver({ r: { ext: 8, async: true } });
    const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 9 });
    const first = driver.connector.loadOf(r).step;
    driver.received(r);
    driver.step();
    expect(driver.scheduler.resetPrefixCache({ resetRunning: true }).ok).toBe(true);
    driver.empty();
    expect(driver.connector.loadOf(r).step).toBeGreaterThan(first);
    return { driver, r, first };
  }

  it('a late report of its first load does not end the second', () => {
    const { driver, r, first } = loadingAgain();
    driver.say({ finishedReceiving: [{ handle: r, step: first }] });
    expect(driver.anomalies).toEqual({ 'duplicate-completion': 1 });
    expect(driver.schedule().totalTokens).toBe(0);
    driver.received(r);
    driver.run();
    expect(driver.text(r)).toEqual(driver.model.text(r, 9));
  });

  it('nor when the request was aborted meanwhile: the second still writes', () => {
    const { driver, r, first } = loadingAgain();
    driver.abort('r');
    driver.say({ finishedReceiving: [{ handle: r, step: first }] });
    expect(driver.anomalies).toEqual({ 'duplicate-completion': 1 });
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
    driver.say({ finishedReceiving: [{ handle: r, step: driver.connector.loadOf(r).step }] });
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
