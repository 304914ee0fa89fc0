import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/index.js';
import { RemoteDriver, type RemoteOptions } from '../../guards/remote.js';
import type { Script } from '../../support/connector/scripted-connector.js';
import { allBlocks, codeOf, leftovers, prompt } from '../../support/driver.js';

/** On a clock that is set by hand. */
class TimedDriver extends RemoteDriver {
  declare time: { ms: number };

  static make(
    scripts: Record<string, Script>,
    options: Partial<SchedulerOptions> & RemoteOptions = {},
  ): TimedDriver {
    const time = { ms: 1000 };
    const driver = new TimedDriver(scripts, { now: () => time.ms, ...options });
    driver.time = time;
    return driver;
  }

  /** An empty step so much later. */
  after(ms: number): void {
    this.time.ms += ms;
    this.empty();
    this.scheduler.verify();
  }
}

describe('the deadline of a load', () => {
  for (const pipelineDepth of [1, 2] as const) {
    it(`depth ${pipelineDepth}: ends the request with error, and its blocks stay until the load has reported`, () => {
      const driver = TimedDriver.make(
        { r: { ext: 8, async: true } },
        { pipelineDepth, deadlines: { load: 100 } },
      );
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      expect(driver.scheduler.nextDeadline).toBe(1100);
      driver.after(99);
      expect(driver.ends.get(r)).toEqual([]);
      driver.after(1);
      expect(driver.ends.get(r)).toEqual(['error']);
      expect(driver.request(r).failure).toBe('waited 100 ms for its KV to be loaded');
      expect(driver.scheduler.stats()).toMatchObject({ loadTimeouts: 1, numLoading: 0, numDraining: 1 });
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      expect(driver.connector.calls).toContain('finished r error 2');
      driver.received(r);
      driver.run();
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: is not held against a request whose load is done and that waits for its turn`, () => {
      const driver = TimedDriver.make(
        { r: { ext: 8, async: true } },
        { pipelineDepth, maxNumSeqs: 1, deadlines: { load: 100 } },
      );
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      const o = driver.add({ id: 'o', prompt: prompt(9, 1), maxTokens: 5 });
      driver.step();
      driver.received(r);
      driver.time.ms += 200;
      driver.run();
      expect(driver.ends.get(o)).toEqual(['length']);
      expect(driver.ends.get(r)).toEqual(['length']);
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    });
  }

  it('is begun anew with each load', () => {
    const driver = TimedDriver.make({ r: { ext: 8, async: true } }, { deadlines: { load: 100 } });
    const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 5 });
    driver.time.ms += 90;
    driver.received(r);
    driver.step();
    expect(driver.scheduler.nextDeadline).toBe(Number.POSITIVE_INFINITY);
    driver.scheduler.resetPrefixCache({ resetRunning: true });
    driver.after(50);
    expect(driver.scheduler.nextDeadline).toBe(1000 + 90 + 50 + 100);
    driver.after(99);
    expect(driver.ends.get(r)).toEqual([]);
    driver.after(1);
    expect(driver.ends.get(r)).toEqual(['error']);
  });

  it('0 waits for ever', () => {
    const driver = TimedDriver.make({ r: { ext: 8, async: true } }, { deadlines: { load: 0 } });
    const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 1 });
    driver.after(1e9);
    driver.received(r);
    driver.run();
    expect(driver.ends.get(r)).toEqual(['length']);
  });
});

describe('a peer that says that it is alive', () => {
  // Pinned by: `applyRenewed` (transfers.ts), `renewDeadline` (finish.ts).
  it('is waited for anew: a load', () => {
    const driver = TimedDriver.make(
      { r: { ext: 8, async: true } },
      { deadlines: { load: 100 }, strict: true },
    );
    const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 1 });
    for (let i = 0; i < 5; i++) {
      driver.after(80);
      driver.say({ renewed: [{ handle: r }] });
    }
    driver.after(99);
    expect(driver.ends.get(r)).toEqual([]);
    driver.after(1);
    expect(driver.ends.get(r)).toEqual(['error']);
  });

  it('is waited for anew: what a finished request leaves behind, also when it was given up', () => {
    const scripts = { r: { delayFree: true } };
    const driver = TimedDriver.make(scripts, { deadlines: { reclaim: 100 }, strict: true });
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 1 });
    driver.step();
    driver.empty();
    driver.after(80);
    driver.say({ renewed: [{ handle: r }] });
    driver.after(80);
    expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, numQuarantined: 0 });
    driver.after(20);
    expect(driver.scheduler.stats()).toMatchObject({ numDraining: 0, numQuarantined: 1 });
    driver.say({ renewed: [{ handle: r }] });
    expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, numQuarantined: 0 });
    expect(driver.scheduler.hasWork()).toBe(true);
    driver.after(99);
    driver.sent(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('about nothing changes nothing, and is counted', () => {
    const driver = TimedDriver.make({ r: { ext: 8, async: true } }, { deadlines: { load: 100 } });
    const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 1 });
    driver.say({ renewed: [{ handle: r, rank: 1 }, { handle: r, child: 1 }, { handle: r + 2 ** 21 }] });
    expect(driver.anomalies).toEqual({ 'wrong-owner': 2, 'stale-handle': 1 });
    expect(driver.scheduler.nextDeadline).toBe(1100);
  });
});

describe('the deadline of what a finished request leaves behind', () => {
  const draining = (options: Partial<SchedulerOptions> & RemoteOptions = {}) => {
    const driver = TimedDriver.make({ r: { delayFree: true } }, { deadlines: { reclaim: 100 }, ...options });
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 1 });
    driver.step();
    driver.empty();
    return { driver, r };
  };

  it('quarantines its blocks: no work any more, and nobody gets them', () => {
    const { driver, r } = draining({ numBlocks: 6 });
    expect(driver.scheduler.hasWork()).toBe(true);
    driver.after(99);
    expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, numQuarantined: 0 });
    driver.after(1);
    const quarantined = {
      numDraining: 0,
      numQuarantined: 1,
      quarantinedBlocks: 3,
      quarantines: 1,
      rowsInUse: 0,
    };
    expect(driver.scheduler.stats()).toMatchObject(quarantined);
    expect(driver.scheduler.hasWork()).toBe(false);
    expect(driver.scheduler.nextDeadline).toBe(Number.POSITIVE_INFINITY);
    const q = driver.add({ id: 'q', prompt: prompt(12, 1), maxTokens: 2 });
    for (let i = 0; i < 5; i++) driver.after(1000);
    expect(driver.blocks(q)).toEqual([]);
    driver.sent(r);
    driver.run();
    expect(driver.text(q)).toEqual(driver.model.text(q, 2));
    expect(driver.anomalies).toEqual({});
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a completion that comes after it is no anomaly; a second one is', () => {
    const { driver, r } = draining();
    driver.after(100);
    driver.sent(r);
    expect(driver.anomalies).toEqual({});
    expect(driver.free).toBe(allBlocks(driver.scheduler));
    driver.sent(r);
    expect(driver.anomalies).toEqual({ 'stale-handle': 1 });
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('one rank of two late: the blocks stay until the other has reported too', () => {
    const { driver, r } = draining({ reporters: [[0, 1]] });
    driver.after(100);
    driver.sent(r, 1);
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 3);
    expect(driver.scheduler.stats().numQuarantined).toBe(1);
    driver.sent(r, 0);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('fenceTransfers brings quarantined blocks back, and ends what still loads', () => {
    for (const loadFailurePolicy of ['fail', 'recompute'] as const) {
      const driver = TimedDriver.make(
        { r: { delayFree: true }, l: { ext: 8, async: true, oneshot: true } },
        { deadlines: { reclaim: 100 }, loadFailurePolicy },
      );
      driver.add({ id: 'r', prompt: prompt(9), maxTokens: 1 });
      driver.step();
      driver.after(100);
      const l = driver.loading({ id: 'l', prompt: prompt(9, 1), maxTokens: 2 });
      expect(driver.scheduler.fenceTransfers()).toBe(2);
      driver.scheduler.verify();
      expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 0, failedLoads: 1, quarantines: 1 });
      driver.run();
      expect(driver.ends.get(l)).toEqual(loadFailurePolicy === 'fail' ? ['error'] : ['length']);
      if (loadFailurePolicy === 'recompute') expect(driver.text(l)).toEqual(driver.model.text(l, 2));
      expect(driver.scheduler.fenceTransfers()).toBe(0);
      expect(leftovers(driver.scheduler)).toEqual([]);
    }
  });

  it('a fence keeps the part of a load that was found here', () => {
    const driver = TimedDriver.make(
      { l: { ext: 12, async: true, oneshot: true } },
      { loadFailurePolicy: 'recompute', strict: true },
    );
    driver.add({ id: 'a', prompt: prompt(5), maxTokens: 1 });
    driver.run();
    const l = driver.loading({ id: 'l', prompt: prompt(13), maxTokens: 2 });
    driver.scheduler.fenceTransfers();
    expect(driver.schedule().numComputedTokens[0]).toBe(4);
    driver.run();
    expect(driver.text(l)).toEqual(driver.model.text(l, 2));
  });

  it('a fence leaves what was registered by hold, and leases', () => {
    const { driver, r } = draining();
    driver.scheduler.hold(r, 'store', 'job');
    driver.scheduler.hold(r, 'lease', 'peer');
    expect(driver.scheduler.fenceTransfers()).toBe(1);
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 3);
    driver.scheduler.complete(r, 'lease', 'peer');
    driver.scheduler.complete(r, 'store', 'job');
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a fence of what is no child is refused', () => {
    const { driver } = draining();
    for (const child of [-1, 0.5, 'all', null]) {
      expect(codeOf(() => driver.scheduler.fenceTransfers(child as number))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
  });

  it('0 keeps them, and keeps the engine at work', () => {
    const { driver, r } = draining({ deadlines: { reclaim: 0 } });
    driver.after(1e9);
    expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, numQuarantined: 0 });
    expect(driver.scheduler.hasWork()).toBe(true);
    driver.sent(r);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('on-confirmation: an abort asks the connector to cancel, once, and the blocks stay until it confirms', () => {
    const { driver, r } = draining({ reclaim: 'on-confirmation', strict: true });
    expect(driver.abort(['r', r, 'r'])).toEqual([]);
    driver.abort(r);
    expect(driver.connector.calls.filter((call) => call === 'cancel r')).toHaveLength(1);
    expect(driver.free).toBe(allBlocks(driver.scheduler) - 3);
    expect(driver.ends.get(r)).toEqual(['length']);
    driver.sent(r);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('on-report: an abort asks nobody, and is counted', () => {
    const { driver, r } = draining();
    driver.abort(['r', r]);
    expect(driver.connector.calls).not.toContain('cancel r');
    expect(driver.anomalies).toEqual({ 'abort-unknown': 1, 'abort-finished': 1 });
    driver.sent(r);
  });

  it('on-confirmation: the abort of an id that runs again is for the one that runs', () => {
    const { driver, r } = draining({ reclaim: 'on-confirmation' });
    const again = driver.add({ id: 'r', prompt: prompt(9, 1) });
    expect(driver.abort('r')).toEqual(['r']);
    expect(driver.ends.get(again)).toEqual(['abort']);
    expect(driver.connector.calls).not.toContain('cancel r');
    driver.abort('r');
    expect(driver.connector.calls).toContain('cancel r');
    driver.sent(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('on-confirmation: in quarantine it is asked no more', () => {
    const { driver, r } = draining({ reclaim: 'on-confirmation' });
    driver.after(100);
    driver.connector.calls.length = 0;
    driver.abort(r);
    expect(driver.connector.calls).not.toContain('cancel r');
    expect(driver.anomalies).toEqual({ 'abort-finished': 1 });
  });
});

describe('a hold of a load that is done', () => {
  it('begins another wait, with a deadline of its own', () => {
    const driver = TimedDriver.make(
      { r: { ext: 8, async: true } },
      { maxNumSeqs: 1, deadlines: { load: 100 } },
    );
    const first = driver.add({ id: 'first', prompt: prompt(3, 5), maxTokens: 50 });
    driver.step();
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
    driver.connector.instead.match = () => ({ numTokens: 8, async: true });
    driver.abort('first');
    driver.empty();
    delete driver.connector.instead.match;
    expect(driver.ends.get(first)).toEqual(['abort']);
    driver.time.ms += 60;
    driver.received(r);
    expect(driver.scheduler.nextDeadline).toBe(Number.POSITIVE_INFINITY);
    expect(driver.scheduler.hold(r, 'load', 'more')).toBe(true);
    driver.scheduler.verify();
    expect(driver.request(r).waitingSince).toBe(1060);
    expect(driver.scheduler.nextDeadline).toBe(1160);
    driver.after(99);
    expect(driver.ends.get(r)).toEqual([]);
    driver.after(1);
    expect(driver.ends.get(r)).toEqual(['error']);
    driver.scheduler.complete(r, 'load', 'more');
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('a request whose blocks are quarantined while they are sent', () => {
  function quarantined(reclaim: 'on-report' | 'on-confirmation') {
    const driver = TimedDriver.make({ r: { delayFree: true } }, { reclaim, deadlines: { reclaim: 100 } });
    const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 1 });
    driver.step();
    return { driver, r, cancels: () => driver.connector.calls.filter((call) => call === 'cancel r').length };
  }

  it.each(['on-report', 'on-confirmation'] as const)('is sent no more: %s', (reclaim) => {
    const { driver, r, cancels } = quarantined(reclaim);
    driver.after(99);
    expect(cancels()).toBe(0);
    driver.after(1);
    expect(cancels()).toBe(1);
    expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 1, quarantines: 1 });
    // A sign of life, and another quarantine: it was asked once.
    driver.say({ renewed: [{ handle: r }] });
    driver.after(100);
    expect([cancels(), driver.scheduler.stats().quarantines]).toEqual([1, 2]);
    driver.sent(r);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('is not asked for again if its client had it stopped before', () => {
    const { driver, cancels } = quarantined('on-confirmation');
    driver.abort('r');
    driver.after(100);
    expect([cancels(), driver.scheduler.stats().quarantines]).toEqual([1, 1]);
  });

  it('nothing is to be sent of what was only to be loaded', () => {
    const driver = TimedDriver.make({ r: { ext: 8, async: true } }, { deadlines: { reclaim: 100 } });
    driver.loading({ id: 'r', prompt: prompt(9) });
    driver.abort('r');
    driver.after(100);
    expect(driver.scheduler.stats().quarantines).toBe(1);
    expect(driver.connector.calls).not.toContain('cancel r');
  });
});
