// Failed rows and steps: nothing that they computed is found later.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';

const FAIL_ALL = () => true;

/** Fails the rows of the requests with these ids. */
function failing(...ids: string[]) {
  return (entry: number, plan: { requests: { id: string }[] }) => ids.includes(plan.requests[entry].id);
}

/** That a request computed now finds nothing wrong: it has the text of one that met an empty cache. */
function expectCleanCache(driver: Driver, length: number, seed = 0): void {
  const probe = driver.add({
    id: `probe-${driver.finished.length}`,
    prompt: prompt(length, seed),
    maxTokens: 2,
  });
  driver.run();
  expect(driver.text(probe)).toEqual(driver.model.text(probe, 2));
  expect(leftovers(driver.scheduler)).toEqual([]);
}

function twoWithOnePrompt(options: Partial<SchedulerOptions>): { driver: Driver; a: number; b: number } {
  const driver = new Driver(options);
  const a = driver.add({ id: 'a', prompt: prompt(13), maxTokens: 3 });
  const b = driver.add({ id: 'b', prompt: prompt(17), maxTokens: 3 });
  return { driver, a, b };
}

describe('a failed row', () => {
  it('ends its request with error, one row and one finished id, and costs nobody else a token', () => {
    const driver = new Driver();
    const bad = driver.add({ id: 'bad', prompt: prompt(9) });
    const good = driver.add({ id: 'good', prompt: prompt(9, 1), maxTokens: 4 });
    driver.schedule(failing('bad'));
    driver.update();
    expect(driver.last).toEqual(['bad:0:error', 'good:1']);
    driver.run();
    expect(driver.ends.get(bad)).toEqual(['error']);
    expect(driver.timesFinished('bad')).toBe(1);
    expect(driver.text(good)).toEqual(driver.model.text(good, 4));
    expect(driver.scheduler.stats()).toMatchObject({ numPreemptions: 0, finished: { error: 1, length: 1 } });
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('evictOnStepFailure on: what it published is not found again', () => {
    const driver = new Driver();
    driver.add({ id: 'a', prompt: prompt(13) });
    driver.schedule(FAIL_ALL);
    driver.update();
    expect(driver.scheduler.stats().cachedBlocks).toBe(0);
    expectCleanCache(driver, 13);
  });

  it('leaves nothing of a sharer that ended with an error of its own meanwhile', () => {
    let time = 0;
    const driver = new Driver({ pipelineDepth: 2, now: () => time });
    driver.add({ id: 'bad', prompt: prompt(9) });
    driver.add({ id: 'late', prompt: prompt(17), timeoutMs: 5 });
    driver.schedule(failing('bad'));
    time = 10;
    driver.schedule();
    expect(driver.scheduler.get('late')).toBeUndefined();
    driver.update();
    // The first one computes again what both had; the second one would find behind it what was computed on nothing.
    for (const id of ['first', 'second']) {
      const handle = driver.add({ id, prompt: prompt(17), maxTokens: 2 });
      driver.run();
      expect(driver.text(handle)).toEqual(driver.model.text(handle, 2));
    }
  });

  it('evictOnStepFailure off: a later request with its prompt reads blocks that were never written', () => {
    const driver = new Driver({ deviations: ['evictOnStepFailure'] });
    driver.add({ id: 'a', prompt: prompt(13) });
    driver.schedule(FAIL_ALL);
    driver.update();
    expect(driver.scheduler.stats().cachedBlocks).toBe(3);
    driver.add({ id: 'b', prompt: prompt(13) });
    expect(() => driver.run()).toThrow(/b got tokens from unwritten blocks/);
  });

  it('keeps the hashes of earlier steps, whose blocks were written', () => {
    const driver = new Driver({ longPrefillTokenThreshold: 8 });
    driver.add({ id: 'a', prompt: prompt(20) });
    driver.step();
    driver.schedule(FAIL_ALL);
    driver.update();
    expect(driver.scheduler.stats().cachedBlocks).toBe(2);
    expectCleanCache(driver, 20);
    expect(driver.scheduler.stats().prefixCacheHits).toBe(8);
  });

  for (const pipelineDepth of [1, 2, 3] as const) {
    it(`depth ${pipelineDepth}: a sharer admitted in the same step is computed again, its output dropped`, () => {
      const { driver, a, b } = twoWithOnePrompt({ pipelineDepth });
      const plan = driver.schedule(failing('a'));
      expect(plan.numComputedTokens[1]).toBe(12);
      driver.update();
      expect(driver.last).toEqual(['a:0:error']);
      driver.scheduler.verify();
      driver.run();
      expect(driver.ends.get(a)).toEqual(['error']);
      expect(driver.text(b)).toEqual(driver.model.text(b, 3));
      expectCleanCache(driver, 17);
    });
  }

  for (const pipelineDepth of [2, 3] as const) {
    it(`depth ${pipelineDepth}: a sharer in a step in flight is computed again, and so is what it filled`, () => {
      const driver = new Driver({ pipelineDepth });
      const a = driver.add({ id: 'a', prompt: prompt(13), maxTokens: 6 });
      driver.schedule(FAIL_ALL);
      const b = driver.add({ id: 'b', prompt: prompt(21), maxTokens: 3 });
      while (driver.inFlight.length < pipelineDepth) driver.schedule();
      expect(driver.scheduler.get('b')?.numCachedTokens).toBe(12);
      driver.update();
      driver.scheduler.verify();
      expect(driver.scheduler.get('b')?.status).toBe('PREEMPTED');
      driver.run();
      expect(driver.ends.get(a)).toEqual(['error']);
      expect(driver.text(b)).toEqual(driver.model.text(b, 3));
      expectCleanCache(driver, 21);
    });

    it(`depth ${pipelineDepth}: a sharer that was aborted meanwhile leaves none of its own blocks to be found`, () => {
      const driver = new Driver({ pipelineDepth });
      driver.add({ id: 'a', prompt: prompt(13), maxTokens: 6 });
      driver.schedule(FAIL_ALL);
      driver.add({ id: 'b', prompt: prompt(21), maxTokens: 3 });
      driver.schedule();
      driver.abort('b');
      driver.update();
      expectCleanCache(driver, 13);
      expectCleanCache(driver, 25);
    });
  }

  for (const pipelineDepth of [2, 3] as const) {
    it(`depth ${pipelineDepth}: a sharer that was preempted meanwhile gets none of the tokens in flight`, () => {
      const driver = new Driver({ pipelineDepth, numBlocks: 7 });
      driver.add({ id: 'first', prompt: prompt(8, 1), maxTokens: 3 });
      driver.add({ id: 'a', prompt: prompt(9), maxTokens: 3 });
      const b = driver.add({ id: 'b', prompt: prompt(9), maxTokens: 3 });
      const plan = driver.schedule(failing('a'));
      expect(plan.numComputedTokens[2]).toBe(8);
      expect(driver.schedule().preempted).toEqual(['b']);
      driver.update();
      expect(driver.last).toContain('a:0:error');
      expect(driver.text(b)).toEqual([]);
      driver.scheduler.verify();
      driver.run();
      expect(driver.text(b)).toEqual(driver.model.text(b, 3));
      expectCleanCache(driver, 9);
    });
  }

  it('depth 1: a request that runs since earlier goes on, and loses no token', () => {
    const driver = new Driver();
    const old = driver.add({ id: 'old', prompt: prompt(9, 1), maxTokens: 9 });
    driver.step();
    driver.add({ id: 'bad', prompt: prompt(9) });
    driver.schedule(failing('bad'));
    driver.update();
    expect(driver.last).toEqual(['bad:0:error', 'old:1']);
    driver.run();
    expect(driver.text(old)).toEqual(driver.model.text(old, 9));
  });

  it('depth 2: a request that was aborted meanwhile reports nothing more, and the cache is forgotten', () => {
    const driver = new Driver({ pipelineDepth: 2 });
    const a = driver.add({ id: 'a', prompt: prompt(13) });
    driver.schedule(FAIL_ALL);
    driver.abort('a');
    const b = driver.add({ id: 'b', prompt: prompt(17), maxTokens: 3 });
    driver.schedule();
    expect(driver.scheduler.get('b')?.numCachedTokens).toBe(12);
    driver.update();
    expect(driver.last).toEqual([]);
    expect(driver.scheduler.stats().cachedBlocks).toBe(0);
    driver.run();
    expect(driver.ends.get(a)).toEqual(['abort']);
    expect(driver.text(b)).toEqual(driver.model.text(b, 3));
    expectCleanCache(driver, 17);
  });

  /** `b` fails in the first of the steps in flight; a later one preempts it, since `a` needs its block. */
  function preemptedMeanwhile(pipelineDepth: 2 | 3): { driver: Driver; a: number; b: number } {
    const driver = new Driver({ pipelineDepth, numBlocks: 9, maxNumBatchedTokens: 40 });
    const a = driver.add({ id: 'a', prompt: prompt(15, 1), maxTokens: 6 });
    const b = driver.add({ id: 'b', prompt: prompt(16), maxTokens: 6 });
    driver.schedule(failing('b'));
    const plan = driver.schedule();
    expect(plan.preempted).toEqual(['b']);
    return { driver, a, b };
  }

  for (const pipelineDepth of [2, 3] as const) {
    it(`depth ${pipelineDepth}: a request that was preempted meanwhile ends with error all the same`, () => {
      const { driver, a, b } = preemptedMeanwhile(pipelineDepth);
      driver.update();
      expect(driver.ends.get(b)).toEqual(['error']);
      expect(driver.scheduler.stats().cachedBlocks).toBe(0);
      driver.run();
      expect(driver.text(a)).toEqual(driver.model.text(a, 6));
      expectCleanCache(driver, 16);
    });
  }

  it('depth 3: of a request admitted again meanwhile, the blocks of its first time are not found either', () => {
    const driver = new Driver({ pipelineDepth: 3 });
    const keeper = driver.add({ id: 'keeper', prompt: prompt(5, 9), maxTokens: 1 });
    driver.scheduler.hold(keeper, 'store', 'x');
    while (driver.scheduler.numUnfinished > 0) driver.step();
    const handle = driver.add({ id: 'a', prompt: prompt(16) });
    driver.schedule(FAIL_ALL);
    // The keeper's blocks make the reset fail: the running request is preempted, and the hashes stay.
    expect(driver.scheduler.resetPrefixCache({ resetRunning: true })).toMatchObject({ ok: false });
    driver.schedule();
    driver.update();
    driver.run(100, () => driver.scheduler.numUnfinished > 0);
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 8));
    driver.scheduler.complete(keeper, 'store', 'x');
    expectCleanCache(driver, 16);
    expectCleanCache(driver, 17);
  });
});

describe('a failed step', () => {
  for (const pipelineDepth of [1, 2, 3] as const) {
    it(`depth ${pipelineDepth}: ends all its requests with error, drops their rows in later steps, forgets its hashes`, () => {
      const { driver, a, b } = twoWithOnePrompt({ pipelineDepth });
      driver.schedule(FAIL_ALL);
      while (driver.inFlight.length < pipelineDepth) driver.schedule();
      driver.failStep();
      expect(driver.last).toEqual(['a:0:error', 'b:0:error']);
      driver.run();
      expect([driver.ends.get(a), driver.ends.get(b)]).toEqual([['error'], ['error']]);
      expect(driver.finished.sort()).toEqual(['a', 'b']);
      expect(driver.scheduler.stats().cachedBlocks).toBe(0);
      expectCleanCache(driver, 17);
    });
  }

  it('of a decode step forgets only what that step was to fill', () => {
    const driver = new Driver();
    driver.add({ id: 'a', prompt: prompt(11), maxTokens: 8 });
    driver.step();
    driver.schedule(FAIL_ALL);
    driver.failStep();
    expect(driver.scheduler.stats().cachedBlocks).toBe(2);
    expectCleanCache(driver, 11);
  });
});
