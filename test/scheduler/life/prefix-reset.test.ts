// `resetPrefixCache`, with and without running requests.
import { describe, expect, it } from 'vitest';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';
import { resetDone, resetRefused } from './reset-result.js';

function threeRunning(pipelineDepth: 1 | 2 | 3 = 1): { driver: Driver; handles: number[] } {
  const driver = new Driver({ pipelineDepth });
  const handles = ['a', 'b', 'c'].map((id, i) =>
    driver.add({ id, prompt: prompt(9, i), maxTokens: 6, cacheSalt: 'x' }),
  );
  driver.step();
  driver.step();
  return { driver, handles };
}

describe('resetPrefixCache', () => {
  it('of an idle scheduler forgets every hash', () => {
    const driver = new Driver();
    driver.add({ id: 'a', prompt: prompt(12) });
    driver.run();
    expect(driver.scheduler.stats().cachedBlocks).toBeGreaterThan(0);
    expect(driver.scheduler.resetPrefixCache()).toEqual(resetDone());
    expect(driver.scheduler.stats().cachedBlocks).toBe(0);
    driver.add({ id: 'b', prompt: prompt(12), maxTokens: 1 });
    driver.run();
    expect(driver.scheduler.stats().prefixCacheHits).toBe(0);
  });

  it('while requests run changes nothing and names who holds blocks', () => {
    const { driver } = threeRunning();
    const before = driver.scheduler.digest();
    expect(driver.scheduler.resetPrefixCache()).toEqual(resetRefused(['a', 'b', 'c']));
    expect(driver.scheduler.digest()).toBe(before);
    expect(driver.scheduler.numRunning).toBe(3);
  });

  for (const pipelineDepth of [1, 2, 3] as const) {
    it(`depth ${pipelineDepth}, resetRunning: preempts from the back, keeps the order, and all texts are whole`, () => {
      const { driver, handles } = threeRunning(pipelineDepth);
      expect(driver.scheduler.resetPrefixCache({ resetRunning: true })).toEqual(
        resetDone({ preempted: ['c', 'b', 'a'] }),
      );
      expect(driver.scheduler.inspect()).toMatchObject({ running: [], waiting: ['a', 'b', 'c'] });
      expect(driver.scheduler.stats()).toMatchObject({ cachedBlocks: 0, rowsInUse: 0, numPreemptions: 3 });
      driver.scheduler.verify();
      driver.run();
      for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 6));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('with transfers outstanding is refused, not thrown: the running ones are preempted, the holder named', () => {
    const { driver, handles } = threeRunning();
    driver.scheduler.hold(handles[1], 'store', 'job');
    driver.abort('b');
    const result = driver.scheduler.resetPrefixCache({ resetRunning: true });
    expect(result).toEqual(resetRefused(['b'], { preempted: ['c', 'a'] }));
    expect(driver.scheduler.stats().cachedBlocks).toBeGreaterThan(0);
    driver.scheduler.complete(handles[1], 'store', 'job');
    expect(driver.scheduler.resetPrefixCache()).toEqual(resetDone());
    driver.run();
    expect(driver.text(handles[0])).toEqual(driver.model.text(handles[0], 6));
  });

  it('names waiting requests only if they hold blocks', () => {
    const { driver } = threeRunning();
    driver.add({ id: 'd', prompt: prompt(4, 7) });
    expect(driver.scheduler.resetPrefixCache().blockers).toEqual(['a', 'b', 'c']);
  });

  it('a preempted request comes back as resumed, with its whole token list', () => {
    const { driver } = threeRunning();
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    const plan = driver.schedule();
    expect([...plan.kinds.subarray(0, 3)]).toEqual([2, 2, 2]);
    expect([...plan.needsAllTokens.subarray(0, 3)]).toEqual([1, 1, 1]);
    expect([...plan.numComputedTokens.subarray(0, 3)]).toEqual([0, 0, 0]);
  });

  it('works with prefix caching off', () => {
    const driver = new Driver({ enablePrefixCaching: false });
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    driver.step();
    expect(driver.scheduler.resetPrefixCache({ resetRunning: true }).ok).toBe(true);
    driver.run();
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 4));
  });

  it('refuses options of another type, before anything is preempted', () => {
    const { driver } = threeRunning();
    for (const options of [{ resetRunning: 1 }, { resetRunning: 'yes' }, null, true]) {
      expect(codeOf(() => driver.scheduler.resetPrefixCache(options as never))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(driver.scheduler.numRunning).toBe(3);
  });
});
