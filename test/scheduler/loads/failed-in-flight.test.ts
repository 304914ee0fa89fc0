// Loads that fail while more steps are in flight: of later steps, of requests that have ended,
// shared by others.
import { describe, expect, it } from 'vitest';
import type { Plan } from '../../../src/index.js';
import { RemoteDriver } from '../../guards/remote.js';
import { expectText, scheduleWork } from '../../guards/support.js';
import { leftovers, prompt } from '../../support/driver.js';

const WAYS = ['a block', 'as a whole'] as const;
const POLICIES = ['fail', 'recompute'] as const;

/** A worker's report of a load that brought nothing. */
function failure(how: (typeof WAYS)[number], handle: number, block: number, named = true) {
  if (how === 'as a whole') return { failedReceiving: [{ handle }] };
  return { invalidBlocks: [named ? { block, handle } : { block }] };
}

// Pinned by: the plans in flight in `applyFailed` and `applyInvalid` (load-failure.ts).
describe('F19 a synchronous load of a step in flight fails, and that is said before the update of its step', () => {
  for (const how of WAYS)
    for (const policy of POLICIES)
      for (const where of ['with the step before', 'between two updates'] as const)
        it(`${how}, ${where}, policy ${policy}`, () => {
          const driver = new RemoteDriver({ a: { ext: 8 } }, { loadFailurePolicy: policy, pipelineDepth: 2 });
          const other = driver.add({ id: 'o', prompt: prompt(6, 1), maxTokens: 4 });
          scheduleWork(driver);
          driver.broken = [0, 1];
          const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
          expect(driver.ids(scheduleWork(driver))).toEqual(['o', 'a']);
          driver.broken = [];
          const report = failure(how, a, driver.blocks(a)[0]);
          if (where === 'with the step before') driver.report = report;
          else driver.say(report);
          driver.update();
          driver.scheduler.verify();
          driver.run();
          expectText(driver, other, 4);
          if (policy === 'recompute') expectText(driver, a, 3);
          else expect([driver.text(a), driver.ends.get(a)]).toEqual([[], ['error']]);
          expect(driver.scheduler.stats().failedLoads).toBe(1);
          expect(driver.anomalies).toEqual({});
          expect(leftovers(driver.scheduler)).toEqual([]);
        });

  // Pinned by: every load of a block is looked at in `applyInvalid`, not only the first.
  for (const evictFailedLoads of [true, false])
    it(`a block of a load that was aborted, and of the next one; nobody is named${evictFailedLoads ? '' : ', without `evictFailedLoads`'}`, () => {
      const driver = new RemoteDriver(
        { a: { ext: 8 }, b: { ext: 12 } },
        {
          loadFailurePolicy: 'recompute',
          numBlocks: 5,
          pipelineDepth: 2,
          deviations: evictFailedLoads || ['evictFailedLoads'],
        },
      );
      const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
      scheduleWork(driver);
      const loaded = driver.blocks(a).slice(0, 2);
      driver.abort('a');
      const b = driver.add({ id: 'b', prompt: prompt(13, 1), maxTokens: 3 });
      driver.broken = [2];
      scheduleWork(driver);
      driver.broken = [];
      const block = driver.blocks(b)[2];
      expect(loaded).toContain(block);
      driver.report = { invalidBlocks: [{ block }] };
      driver.update();
      driver.run();
      expectText(driver, b, 3);
      // With the deviation all that may have found the first load is computed again, the second one too.
      expect(driver.scheduler.stats().failedLoads).toBe(evictFailedLoads ? 0 : 1);
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
});

// Pinned by: `traceless` in `failSyncLoads` (load-failure.ts).
describe('F19 a row fails, and the load that its step waited for', () => {
  for (const how of WAYS)
    it(`${how}, without \`evictOnStepFailure\`: what the load left is not found by who comes next`, () => {
      const driver = new RemoteDriver(
        { a: { ext: 8 } },
        { deviations: ['evictOnStepFailure'], loadFailurePolicy: 'recompute' },
      );
      driver.broken = [0, 1];
      const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
      driver.schedule(() => true);
      driver.broken = [];
      const blocks = driver.blocks(a).slice(0, 2);
      driver.report =
        how === 'as a whole'
          ? { failedReceiving: [{ handle: a }] }
          : { invalidBlocks: blocks.map((block) => ({ block, handle: a })) };
      driver.update();
      expect(driver.ends.get(a)).toEqual(['error']);
      const b = driver.add({ id: 'b', prompt: prompt(9), maxTokens: 3 });
      driver.run();
      expectText(driver, b, 3);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
});

// Pinned by: `leftSince` (bad-blocks.ts), which looks at the steps in flight too.
describe('F21 a synchronous load fails, and who shared its blocks in a later step has left', () => {
  it('what it left in the cache behind them is not found', () => {
    const driver = new RemoteDriver({ a: { ext: 8 } }, { loadFailurePolicy: 'recompute', pipelineDepth: 2 });
    driver.broken = [0, 1];
    const a = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
    scheduleWork(driver);
    driver.broken = [];
    const missing = driver.blocks(a).slice(0, 2);
    const text = Int32Array.of(...prompt(8), ...prompt(9, 1));
    const sharer = driver.add({ id: 'b', prompt: text, maxTokens: 3 });
    scheduleWork(driver);
    expect(driver.blocks(sharer).slice(0, 2)).toEqual(missing);
    driver.abort('b');
    driver.report = { invalidBlocks: missing.map((block) => ({ block, handle: a })) };
    driver.update();
    driver.scheduler.verify();
    driver.run();
    expectText(driver, a, 3);
    const next = driver.add({ id: 'c', prompt: text, maxTokens: 3 });
    // Only what `a` has computed again is there.
    expect(scheduleWork(driver).numComputedTokens[0]).toBe(8);
    driver.run();
    expectText(driver, next, 3);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

// Pinned by: `firstInFlight` in `failSyncLoads` (load-failure.ts).
describe('F21 a synchronous load fails, then the next one of the same request, which was preempted in between', () => {
  it.each([false, true])(
    'nobody counts on the step that computes again what the first one lacked; it fails: %s',
    (fails) => {
      const driver = new RemoteDriver(
        { a: { ext: 14 } },
        { loadFailurePolicy: 'recompute', numBlocks: 6, pipelineDepth: 3 },
      );
      /** The tokens of `a` that a plan counts as computed. */
      const computed = (plan: Plan): number => {
        const { requests, numRequests, numComputedTokens } = plan;
        return numComputedTokens[requests.slice(0, numRequests).findIndex((request) => request?.id === 'a')];
      };
      const load = (broken: number[]): number[] => {
        driver.broken = broken;
        expect(computed(scheduleWork(driver))).toBe(14);
        driver.broken = [];
        return driver.blocks(a);
      };
      const other = driver.add({ id: 'o', prompt: prompt(1, 1), maxTokens: 1 });
      const a = driver.add({ id: 'a', prompt: prompt(15), maxTokens: 4 });
      const [first] = load([0]);
      scheduleWork(driver);
      // The pool has no block for the next token, so the request preempts itself. It finds three blocks again, and loads the last.
      const empty = driver.schedule();
      expect([empty.totalTokens, [...empty.preempted]]).toEqual([0, ['a']]);
      driver.scheduler.update(empty, { tokens: new Int32Array(0), counts: new Int32Array(0) });
      const last = load([0, 1, 2, 3])[3];
      driver.report = { invalidBlocks: [{ block: first, handle: a }] };
      driver.update();
      const again = driver.schedule((at, plan) => fails && plan.requests[at]?.id === 'a');
      expect(computed(again)).toBe(0);
      driver.update();
      driver.report = { invalidBlocks: [{ block: last, handle: a }] };
      driver.update();
      // The step that computes the first block again is in flight, so a connector must not store what stands there.
      expect(driver.connector.view.extent(driver.request(a)).numSettledTokens).toBe(0);
      driver.run();
      expectText(driver, other, 1);
      expectText(driver, a, 4);
      expect(leftovers(driver.scheduler)).toEqual([]);
    },
  );
});

// Pinned by: `loseLoad` (life/loading.ts), which keeps the local tokens.
describe('F20 an asynchronous load fails as a whole', () => {
  it('policy recompute: what was found here before it stays computed, and nobody is asked again', () => {
    const driver = new RemoteDriver({ r: { ext: 16, async: true } }, { loadFailurePolicy: 'recompute' });
    driver.add({ id: 'first', prompt: prompt(9), maxTokens: 1 });
    driver.run();
    const r = driver.loading({ id: 'r', prompt: prompt(18), maxTokens: 3 });
    const row = driver.blocks(r);
    driver.say({ failedReceiving: [{ handle: r }] });
    driver.say({ finishedReceiving: [{ handle: r }] });
    driver.connector.drain();
    expect(scheduleWork(driver).numComputedTokens[0]).toBe(8);
    expect(driver.connector.drain().filter((call) => call.startsWith('match'))).toEqual([]);
    expect(driver.blocks(r).slice(0, row.length)).toEqual(row);
    driver.run();
    expectText(driver, r, 3);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

// Pinned by: `dropOutputs` under the policy fail in `failLoads` (load-failure.ts).
describe('a request that was preempted and loaded again, while an older step of it is in flight', () => {
  for (const how of WAYS)
    it(`policy fail, ${how}: its client gets the error, and no token of that step`, () => {
      const driver = new RemoteDriver(
        { r: { ext: 8, async: true } },
        { loadFailurePolicy: 'fail', pipelineDepth: 3, numBlocks: 6, enablePrefixCaching: false },
      );
      driver.connector.instead.match = () => ({ numTokens: 0, async: false });
      driver.add({ id: 'x', prompt: prompt(7, 1), maxTokens: 8 });
      const r = driver.add({ id: 'r', prompt: prompt(11), maxTokens: 8 });
      scheduleWork(driver);
      expect(driver.ids(scheduleWork(driver))).toEqual(['x', 'r']);
      expect(scheduleWork(driver).preempted).toEqual(['r']);
      driver.update();
      expect(driver.text(r)).toHaveLength(1);
      driver.abort('x');
      delete driver.connector.instead.match;
      driver.schedule();
      const { blocks } = driver.connector.loadOf(r);
      driver.report = { ...failure(how, r, blocks[0]), finishedReceiving: [{ handle: r }] };
      driver.update();
      expect([driver.last, driver.text(r).length]).toEqual([['r:0:error'], 1]);
      expect(driver.ends.get(r)).toEqual(['error']);
      driver.run();
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
});

// Pinned by: the smaller of both numbers in `failSyncLoads` (load-failure.ts).
describe('F21 a load fails, and then one that a later step in flight began behind it, of the same request', () => {
  for (const how of WAYS)
    for (const between of ['nothing', 'a step'] as const)
      it(`${how}, ${between} between: what the first one left is computed too`, () => {
        const driver = new RemoteDriver(
          { sent: { delayFree: true } },
          { loadFailurePolicy: 'recompute', pipelineDepth: 3, longPrefillTokenThreshold: 4 },
        );
        // While somebody holds blocks, a reset forgets no prefix.
        const sent = driver.add({ id: 'sent', prompt: prompt(5, 1), maxTokens: 1 });
        driver.run(9, () => !driver.ends.get(sent)?.length);
        driver.connector.instead.match = () => ({ numTokens: 8, async: false });
        driver.broken = [0, 1];
        const a = driver.add({ id: 'a', prompt: prompt(18), maxTokens: 3 });
        scheduleWork(driver);
        driver.scheduler.resetPrefixCache({ resetRunning: true });
        // The request hits the blocks of the first load, whose failure nobody knows yet.
        driver.connector.instead.match = () => ({ numTokens: 4, async: false });
        driver.broken = [3];
        expect(scheduleWork(driver).numComputedTokens[0]).toBe(16);
        driver.broken = [];
        driver.report = failure(how, a, driver.blocks(a)[0]);
        driver.update();
        if (between === 'a step') scheduleWork(driver);
        driver.report = failure(how, a, driver.blocks(a)[3]);
        driver.update();
        driver.scheduler.verify();
        driver.run(20, () => !driver.ends.get(a)?.length);
        expectText(driver, a, 3);
        const next = driver.add({ id: 'b', prompt: prompt(18), maxTokens: 3 });
        driver.connector.instead.match = () => ({ numTokens: 0, async: false });
        driver.run(9, () => !driver.ends.get(next)?.length);
        expectText(driver, next, 3);
        driver.sent(sent);
        expect(driver.anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
});

// Pinned by: `hasLeft` in `failSyncLoads` (load-failure.ts).
describe('F21 a load fails whose request was preempted and admitted again since, without the last block of its text', () => {
  for (const how of WAYS)
    it(`${how}: that block was computed from the load, and is not found`, () => {
      const driver = new RemoteDriver(
        { sent: { delayFree: true } },
        { loadFailurePolicy: 'recompute', pipelineDepth: 3 },
      );
      // While somebody holds blocks, a reset forgets no prefix.
      const sent = driver.add({ id: 'sent', prompt: prompt(5, 1), maxTokens: 1 });
      driver.run(9, () => !driver.ends.get(sent)?.length);
      driver.connector.instead.match = () => ({ numTokens: 8, async: false });
      driver.broken = [0, 1];
      const a = driver.add({ id: 'a', prompt: prompt(16), maxTokens: 3 });
      scheduleWork(driver);
      driver.broken = [];
      const left = driver.blocks(a)[3];
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      driver.connector.instead.match = () => ({ numTokens: 0, async: false });
      // A hit spares the last token, and so the block in which it stands.
      expect(scheduleWork(driver).numComputedTokens[0]).toBe(12);
      expect(driver.blocks(a)).not.toContain(left);
      driver.report = failure(how, a, driver.blocks(a)[0]);
      driver.update();
      driver.scheduler.verify();
      driver.run(20, () => !driver.ends.get(a)?.length);
      expectText(driver, a, 3);
      const next = driver.add({ id: 'b', prompt: prompt(18), maxTokens: 3 });
      expect(scheduleWork(driver).numComputedTokens[0]).toBe(16);
      expect(driver.blocks(next)).not.toContain(left);
      driver.run(9, () => !driver.ends.get(next)?.length);
      expectText(driver, next, 3);
      driver.sent(sent);
      // The request itself went on where it was.
      expect(driver.scheduler.stats().numPreemptions).toBe(1);
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
});
