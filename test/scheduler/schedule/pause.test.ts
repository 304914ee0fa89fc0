// `pause('new')` and `pause('all')`, `resume`, `hasWork`.
import { describe, expect, it } from 'vitest';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';

/** One request runs, and one request waits for its place. */
function oneAndOne(options = {}): Driver {
  const driver = new Driver({ maxNumSeqs: 1, ...options });
  driver.add({ id: 'a', prompt: prompt(6), maxTokens: 4 });
  driver.add({ id: 'b', prompt: prompt(6, 1), maxTokens: 4 });
  driver.step();
  return driver;
}

describe('pause', () => {
  it('new: what runs goes on to its end, and nothing is admitted until resume', () => {
    const driver = oneAndOne();
    driver.scheduler.pause('new');
    expect(driver.scheduler.numUnfinished).toBe(1);
    driver.run();
    expect(driver.scheduler.inspect()).toMatchObject({ running: [], waiting: ['b'] });
    expect(driver.scheduler.numUnfinished).toBe(0);
    expect(driver.schedule().totalTokens).toBe(0);
    driver.scheduler.resume();
    expect(driver.scheduler.numUnfinished).toBe(1);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
    expect(driver.finished).toEqual(['a', 'b']);
  });

  it('new: a request preempted meanwhile stays out until resume', () => {
    const driver = oneAndOne();
    driver.scheduler.pause('new');
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    expect(driver.schedule().totalTokens).toBe(0);
    driver.scheduler.resume();
    expect(driver.schedule().requests[0].id).toBe('a');
  });

  it('all: schedules nothing and preempts nothing; resume goes on where it stood', () => {
    const driver = oneAndOne();
    driver.scheduler.pause('all');
    for (let i = 0; i < 3; i++) {
      const plan = driver.schedule();
      expect([plan.totalTokens, plan.numRequests]).toEqual([0, 0]);
    }
    expect(driver.scheduler.numUnfinished).toBe(0);
    expect(driver.scheduler.hasWork()).toBe(false);
    driver.scheduler.resume();
    driver.run();
    expect(driver.scheduler.stats().numPreemptions).toBe(0);
    expect(driver.finished).toEqual(['a', 'b']);
  });

  it('all: what is in flight is still updated, stops and is reported', () => {
    const driver = oneAndOne({ pipelineDepth: 2 });
    const a = driver.scheduler.get('a')?.handle as number;
    while (driver.scheduler.get('a')) {
      driver.scheduler.resume();
      driver.schedule();
      driver.scheduler.pause('all');
      expect(driver.scheduler.hasWork()).toBe(true);
      while (driver.inFlight.length > 0) driver.update();
    }
    expect(driver.text(a)).toEqual(driver.model.text(a, 4));
    expect(driver.scheduler.hasWork()).toBe(true);
    driver.schedule();
    expect(driver.scheduler.hasWork()).toBe(false);
  });

  it('modes may follow each other, and requests may be added and aborted meanwhile', () => {
    const driver = oneAndOne();
    driver.scheduler.pause('all');
    driver.scheduler.pause('new');
    expect(driver.schedule().numRequests).toBe(1);
    driver.add({ id: 'c', prompt: prompt(6, 2), maxTokens: 1 });
    driver.scheduler.pause('all');
    expect(driver.abort(['a', 'c'])).toEqual(['a', 'c']);
    driver.update();
    expect(driver.scheduler.hasWork()).toBe(true);
    expect(driver.schedule().finished).toEqual(['a', 'c']);
    driver.scheduler.resume();
    driver.run();
    expect(driver.finished).toEqual(['a', 'c', 'b']);
  });

  it('refuses other modes', () => {
    const driver = oneAndOne();
    for (const mode of ['none', 'some', '', null, 1]) {
      expect(codeOf(() => driver.scheduler.pause(mode as 'all'))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(driver.scheduler.numUnfinished).toBe(2);
  });
});

describe('hasWork', () => {
  it('is true exactly while something can change: queued, in flight, unreported or held', () => {
    const driver = new Driver();
    const { scheduler } = driver;
    const seen = [scheduler.hasWork()];
    const handle = driver.add({ id: 'a', maxTokens: 1 });
    scheduler.hold(handle, 'lease', 'peer');
    seen.push(scheduler.hasWork());
    driver.schedule();
    driver.abort('a');
    seen.push(scheduler.hasWork());
    driver.update();
    scheduler.complete(handle, 'lease', 'peer');
    seen.push(scheduler.hasWork());
    driver.schedule();
    seen.push(scheduler.hasWork());
    expect(seen).toEqual([false, true, true, true, false]);
  });

  it('covers the row of a request that ended inside schedule, until an update delivered it', () => {
    const driver = new Driver({ numBlocks: 3 });
    const handle = driver.add({ id: 'a', prompt: prompt(8), maxTokens: 9 });
    driver.step();
    const plan = driver.schedule();
    expect([plan.totalTokens, plan.finished]).toEqual([0, ['a']]);
    expect(driver.scheduler.hasWork()).toBe(true);
    driver.update(plan);
    expect(driver.last).toEqual(['a:0:length']);
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(driver.scheduler.hasWork()).toBe(false);
  });

  it('numUnfinished counts running, waiting and preempted requests, not draining ones', () => {
    const driver = oneAndOne();
    const handle = driver.add({ id: 'c', prompt: prompt(5, 2) });
    driver.scheduler.hold(handle, 'store', 'x');
    expect(driver.scheduler.numUnfinished).toBe(3);
    driver.abort('c');
    expect(driver.scheduler.numUnfinished).toBe(2);
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    expect(driver.scheduler.numUnfinished).toBe(2);
    expect([driver.scheduler.numRunning, driver.scheduler.numWaiting]).toEqual([0, 2]);
  });
});
