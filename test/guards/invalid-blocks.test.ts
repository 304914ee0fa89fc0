// F19, F20, F21, F22: blocks that a load failed to load.
import { describe, expect, it } from 'vitest';
import type { InvalidBlock } from '../../src/connector.js';
import { leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';
import { DEPTHS, expectText, expectUnchanged, scheduleWork } from './support.js';

// Pinned by: `failSyncLoads` and `evictRow` (src/scheduler/loads/load-failure.ts, bad-blocks.ts).
describe('F19 a block of a synchronous load did not come', () => {
  const LARGE = { numBlocks: 257, maxModelLen: 512, maxNumBatchedTokens: 512 };
  const SCRIPTS = { a: { ext: 400 }, b: { ext: 400 } };
  const long = { prompt: prompt(401), maxTokens: 2 };

  function broken(loadFailurePolicy: 'fail' | 'recompute', pipelineDepth: 1 | 2, named: boolean) {
    const driver = new RemoteDriver(SCRIPTS, { ...LARGE, pipelineDepth, loadFailurePolicy });
    driver.broken = [50];
    const handle = driver.add({ id: 'a', ...long });
    expect(scheduleWork(driver).totalTokens).toBe(1);
    if (pipelineDepth === 2) scheduleWork(driver);
    const block = driver.blocks(handle)[50];
    driver.broken = [];
    driver.report = { invalidBlocks: [named ? { block, handle } : { block }] };
    driver.update();
    driver.scheduler.verify();
    expect(driver.scheduler.stats()).toMatchObject({ failedLoads: 1 });
    expect(driver.scheduler.stats().anomalies).toEqual({});
    return { driver, handle };
  }

  for (const pipelineDepth of DEPTHS) {
    for (const named of [true, false]) {
      it(`policy fail: one row with error; what lies before it can be found, at depth ${pipelineDepth}`, () => {
        const { driver, handle } = broken('fail', pipelineDepth, named);
        expect(driver.last).toEqual(['a:0:error']);
        expect(driver.scheduler.stats().cachedBlocks).toBe(50);
        const next = driver.add({ id: 'b', ...long });
        driver.run();
        expect(driver.connector.drain()).toContain('match b 200');
        expectText(driver, next, 2);
        expect(driver.ends.get(handle)).toEqual(['error']);
        expect(driver.text(handle)).toEqual([]);
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }

    it(`policy recompute: nothing of the step counts, and it goes on from there, at depth ${pipelineDepth}`, () => {
      const { driver, handle } = broken('recompute', pipelineDepth, true);
      expect(driver.last).toEqual([]);
      expect(driver.scheduler.stats().cachedBlocks).toBe(50);
      while (driver.inFlight.length > 0) driver.update();
      const plan = scheduleWork(driver);
      expect([plan.numComputedTokens[0], plan.numScheduledTokens[0]]).toEqual([200, 201]);
      driver.run();
      expectText(driver, handle, 2);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: `truncateLoad` (src/scheduler/loads/bad-blocks.ts) and `endLoading` (src/scheduler/life/loading.ts), which publishes.
describe('F20 a block of an asynchronous load did not come', () => {
  /** The missing blocks take several steps to compute. */
  const SLOWLY = { loadFailurePolicy: 'recompute', longPrefillTokenThreshold: 4 } as const;

  function failing(
    pipelineDepth: 1 | 2,
    at: number,
    together: boolean,
    meanwhile: (driver: RemoteDriver) => void = () => {},
  ) {
    const scripts = { r: { ext: 16, async: true, oneshot: true } };
    const driver = new RemoteDriver(scripts, { ...SLOWLY, pipelineDepth });
    const handle = driver.loading({ id: 'r', prompt: prompt(18), maxTokens: 3 });
    const invalidBlocks = [{ block: driver.blocks(handle)[at] }];
    meanwhile(driver);
    // The blocks behind it are not reported, and none of them counts.
    driver.broken = [0, 1, 2, 3].slice(at);
    driver.land(handle);
    if (together) driver.say({ invalidBlocks, finishedReceiving: [{ handle }] });
    else {
      driver.say({ invalidBlocks });
      driver.empty();
      driver.say({ finishedReceiving: [{ handle }] });
    }
    expect(driver.scheduler.stats()).toMatchObject({ failedLoads: 1, numLoading: 1 });
    expect(driver.scheduler.stats().anomalies).toEqual({});
    return { driver, handle };
  }

  for (const pipelineDepth of DEPTHS) {
    for (const together of [true, false]) {
      const when = together ? 'with its end' : 'before its end';
      it(`said ${when}: only what lies before it counts and can be found, at depth ${pipelineDepth}`, () => {
        const { driver, handle } = failing(pipelineDepth, 2, together);
        const sharer = driver.add({ id: 's', prompt: prompt(18), maxTokens: 3 });
        const plan = scheduleWork(driver);
        expect(driver.ids(plan)).toEqual(['r', 's']);
        expect(plan.numComputedTokens[0]).toBe(8);
        driver.run();
        expectText(driver, handle, 3);
        expectText(driver, sharer, 3);
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }

    it(`the first: its blocks go back, and it is looked up again, at depth ${pipelineDepth}`, () => {
      const { driver, handle } = failing(pipelineDepth, 0, true);
      driver.connector.drain();
      const plan = scheduleWork(driver);
      expect(plan.numComputedTokens[0]).toBe(0);
      expect(driver.connector.drain()).toEqual(['match r 0', 'alloc r 0 of 1']);
      driver.run();
      expectText(driver, handle, 3);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`the first, and somebody else has computed the same meanwhile: that is found, at depth ${pipelineDepth}`, () => {
      const { driver, handle } = failing(pipelineDepth, 0, true, (meanwhile) => {
        meanwhile.add({ id: 's', prompt: prompt(18), maxTokens: 1 });
        meanwhile.run(20, () => meanwhile.scheduler.numUnfinished > 1);
      });
      const plan = scheduleWork(driver);
      expect([driver.ids(plan), plan.numComputedTokens[0]]).toEqual([['r'], 16]);
      driver.run();
      expectText(driver, handle, 3);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

// Pinned by: the deviation `sharersWait`: `recomputeSharers` (src/scheduler/loads/bad-blocks.ts).
describe('F21 others share a block that did not come', () => {
  const same = { prompt: prompt(9), maxTokens: 4 };

  function shared(
    loadFailurePolicy: 'fail' | 'recompute',
    pipelineDepth: 1 | 2,
    deviations: boolean | readonly string[] = true,
  ) {
    // The owner needs several steps to compute what it misses.
    const slow = { longPrefillTokenThreshold: 4 };
    const options = { ...slow, pipelineDepth, loadFailurePolicy, deviations };
    const driver = new RemoteDriver({ a: { ext: 8 } }, options);
    driver.broken = [0, 1];
    const owner = driver.add({ id: 'a', ...same });
    const sharers = [driver.add({ id: 'b', ...same })];
    expect(scheduleWork(driver).numComputedTokens.slice(0, 2)).toEqual(Int32Array.of(8, 8));
    const missing = driver.blocks(owner).slice(0, 2);
    expect(driver.blocks(sharers[0]).slice(0, 2)).toEqual(missing);
    if (pipelineDepth === 2) {
      sharers.push(driver.add({ id: 'c', ...same }));
      expect(driver.ids(scheduleWork(driver))).toContain('c');
    }
    driver.report = { invalidBlocks: missing.map((block) => ({ block, handle: owner })) };
    driver.update();
    driver.scheduler.verify();
    driver.run();
    return { driver, owner, sharers };
  }

  for (const pipelineDepth of DEPTHS) {
    for (const policy of ['fail', 'recompute'] as const) {
      it(`they are computed behind it, policy ${policy}, at depth ${pipelineDepth}`, () => {
        const { driver, owner, sharers } = shared(policy, pipelineDepth);
        if (policy === 'fail') expect(driver.ends.get(owner)).toEqual(['error']);
        else expectText(driver, owner, 4);
        for (const sharer of sharers) expectText(driver, sharer, 4);
        expect(driver.scheduler.stats()).toMatchObject({ failedLoads: 1 });
        expect(driver.scheduler.stats().anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }

  it('without the deviation they read what is not there, as in vLLM', () => {
    expect(() => shared('recompute', 1, ['sharersWait'])).toThrow('b got tokens from unwritten blocks');
  });
});

// Pinned by: `applyInvalid` (src/scheduler/loads/load-failure.ts): blocks are looked for among loads, with their generation.
describe('F22 invalid blocks that are none, of somebody else, or said twice', () => {
  const RECOMPUTE = { loadFailurePolicy: 'recompute' } as const;

  it('unknown, out of range, the null block, of no load or of another one: counted, and nothing changed', () => {
    const driver = new RemoteDriver({ r: { ext: 8, async: true }, s: { ext: 8 } }, RECOMPUTE);
    const loading = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
    const running = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 3 });
    driver.step();
    const [of, other] = [driver.blocks(loading)[0], driver.blocks(running)[0]];
    const free = Array.from({ length: 32 }, (_, i) => i + 1).find(
      (block) => !driver.blocks(loading).includes(block) && !driver.blocks(running).includes(block),
    );
    const bad: InvalidBlock[] = [...[0, -1, 33, 1000, 2 ** 31, 2 ** 32 + of], other, free as number].map(
      (block) => ({ block }),
    );
    bad.push({ block: of, handle: running }, { block: of, handle: 0 }, { block: 0, handle: loading });
    for (const [i, invalid] of bad.entries()) {
      expectUnchanged(driver.scheduler, () => driver.scheduler.updateTransfers({ invalidBlocks: [invalid] }));
      expect(driver.anomalies).toEqual({ 'invalid-block': i + 1 });
    }
    for (const block of [2 ** 53, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expectUnchanged(driver.scheduler, () =>
        driver.scheduler.updateTransfers({ invalidBlocks: [{ block }] }),
      );
    }
    expect(driver.anomalies).toEqual({ 'invalid-block': bad.length, 'connector-failed': 4 });
    driver.received(loading);
    driver.run();
    expectText(driver, loading, 3);
    expectText(driver, running, 3);
    expect(driver.scheduler.stats().failedLoads).toBe(0);
  });

  for (const named of [true, false]) {
    it(`of a step in flight, and the block is another request's by now${named ? ', by handle' : ''}`, () => {
      const driver = new RemoteDriver({ a: { ext: 8 } }, { ...RECOMPUTE, numBlocks: 5, pipelineDepth: 2 });
      driver.broken = [0];
      const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
      scheduleWork(driver);
      const [block] = driver.blocks(handle);
      driver.abort('a');
      const next = driver.add({ id: 'b', prompt: prompt(14, 1), maxTokens: 3 });
      scheduleWork(driver);
      expect(driver.blocks(next)).toContain(block);
      driver.report = { invalidBlocks: [named ? { block, handle } : { block }] };
      driver.update();
      driver.scheduler.verify();
      expect(driver.anomalies).toEqual({ 'reassigned-block': 1 });
      // A request that was admitted since may have found the blocks that `a` published, so it is
      // computed again; it does not fail for it.
      expect(driver.scheduler.stats()).toMatchObject({ failedLoads: 0, numPreemptions: 1 });
      driver.run();
      expect(driver.ends.get(next)).toEqual(['length']);
      expectText(driver, next, 3);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('of a step in flight, said before its update, and the request has been given the blocks anew', () => {
    const options = { numBlocks: 5, pipelineDepth: 2, loadFailurePolicy: 'fail' } as const;
    const driver = new RemoteDriver({ a: { ext: 12, oneshot: true } }, options);
    driver.broken = [0, 1, 2];
    const a = driver.add({ id: 'a', prompt: prompt(13), maxTokens: 2 });
    scheduleWork(driver);
    const missing = driver.blocks(a).slice(0, 3);
    driver.say({ invalidBlocks: missing.map((block) => ({ block, handle: a })) });
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    scheduleWork(driver);
    expect(missing).toContain(driver.blocks(a)[1]);
    driver.run();
    expect(driver.anomalies).toEqual({});
    expect(driver.ends.get(a)).toEqual(['length']);
    expectText(driver, a, 2);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  for (const pipelineDepth of DEPTHS) {
    for (const order of [
      [3, 1],
      [1, 3],
      [1, 1, 3, 1],
    ]) {
      it(`said in pieces over several steps, blocks ${order}: the first of them counts, at depth ${pipelineDepth}`, () => {
        const scripts = { r: { ext: 16, async: true, oneshot: true } };
        const driver = new RemoteDriver(scripts, { ...RECOMPUTE, pipelineDepth });
        const handle = driver.loading({ id: 'r', prompt: prompt(18), maxTokens: 3 });
        driver.broken = order;
        driver.land(handle);
        for (const at of order) {
          const block = driver.blocks(handle)[at];
          driver.say({ invalidBlocks: [{ block }, { block, handle }] });
          driver.empty();
        }
        driver.say({ finishedReceiving: [{ handle }] });
        expect(scheduleWork(driver).numComputedTokens[0]).toBe(4);
        driver.run();
        expectText(driver, handle, 3);
        expect(driver.anomalies).toEqual({});
        expect(leftovers(driver.scheduler)).toEqual([]);
      });
    }
  }

  it('a load that failed in pieces is one load', () => {
    const driver = new RemoteDriver({ r: { ext: 16, async: true, oneshot: true } }, RECOMPUTE);
    const handle = driver.loading({ id: 'r', prompt: prompt(18), maxTokens: 3 });
    for (const at of [3, 1]) driver.say({ invalidBlocks: [{ block: driver.blocks(handle)[at] }] });
    expect(driver.scheduler.stats().failedLoads).toBe(1);
  });
});
