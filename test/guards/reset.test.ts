// F40, F41: resets of the prefix cache.
import { describe, expect, it } from 'vitest';
import { allBlocks, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';

const DEPTHS = [1, 2] as const;
const FORCED = { resetRunning: true, resetConnector: true };

describe('F40 a reset of the cache while transfers are pending', () => {
  // Pinned by: a holder of blocks is a blocker, never an exception (resetPrefixCache,
  // prefix-reset.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: a request that loads blocks it, is named, and is not touched`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth, strict: true });
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      const digest = driver.scheduler.digest();
      for (const options of [{}, FORCED]) {
        expect(driver.scheduler.resetPrefixCache(options)).toEqual({
          ok: false,
          local: false,
          connector: null,
          blockers: ['r'],
          pinnedBlocks: 0,
          preempted: [],
          reclaimed: [],
        });
      }
      expect(driver.scheduler.digest()).toBe(digest);
      expect(driver.connector.calls).not.toContain('reset');
      driver.received(r);
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
      expect(driver.scheduler.resetPrefixCache(FORCED)).toMatchObject({ ok: true, blockers: [] });
      expect(driver.scheduler.stats().cachedBlocks).toBe(0);
    });

    it(`depth ${pipelineDepth}: one that drains, one in quarantine and one whose blocks a preemption had to leave are named`, () => {
      let time = 0;
      const driver = new RemoteDriver(
        { d: { delayFree: true }, q: { delayFree: true } },
        { pipelineDepth, now: () => time, deadlines: { reclaim: 10 } },
      );
      const q = driver.add({ id: 'q', prompt: prompt(5, 1), maxTokens: 1 });
      driver.step();
      time = 10;
      driver.empty();
      const d = driver.add({ id: 'd', prompt: prompt(5, 2), maxTokens: 1 });
      const p = driver.add({ id: 'p', prompt: prompt(5, 3), maxTokens: 9 });
      driver.schedule();
      driver.update();
      driver.scheduler.hold(p, 'store', 'job');
      const reset = driver.scheduler.resetPrefixCache(FORCED);
      expect(reset).toMatchObject({ ok: false, preempted: ['p'], connector: null });
      expect(reset.blockers.sort()).toEqual(['d', 'p', 'q']);
      expect(driver.scheduler.stats().cachedBlocks).toBeGreaterThan(0);
      driver.scheduler.verify();
      driver.sent(d);
      driver.sent(q);
      expect(driver.scheduler.resetPrefixCache(FORCED).blockers).toEqual(['p']);
      driver.scheduler.complete(p, 'store', 'job');
      expect(driver.scheduler.resetPrefixCache(FORCED)).toMatchObject({ ok: true, blockers: [] });
      driver.run();
      expect(driver.text(p)).toEqual(driver.model.text(p, 9));
    });

    it(`depth ${pipelineDepth}: what was loaded and waits for its turn blocks it too, and runs afterwards`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth });
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      driver.received(r);
      expect(driver.scheduler.resetPrefixCache({ resetRunning: true })).toMatchObject({
        ok: false,
        blockers: ['r'],
      });
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: with a step in flight, and a report that comes late, nothing is left and nothing stale is found`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth });
      const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      const o = driver.add({ id: 'o', prompt: prompt(9, 1), maxTokens: 4 });
      driver.schedule();
      driver.abort('r');
      expect(driver.scheduler.resetPrefixCache(FORCED)).toMatchObject({
        ok: false,
        blockers: ['r'],
        preempted: ['o'],
      });
      driver.update();
      driver.received(r);
      driver.received(r);
      expect(driver.anomalies).toEqual({ 'stale-handle': 1 });
      expect(driver.scheduler.resetPrefixCache(FORCED).ok).toBe(true);
      const probe = driver.add({ id: 'probe', prompt: prompt(9), maxTokens: 1 });
      expect(driver.scheduler.core.native.match(driver.request(probe).slot, 2)).toBe(0);
      driver.run();
      expect(driver.text(o)).toEqual(driver.model.text(o, 4));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F41 the local cache was reset, another tier was not', () => {
  // Pinned by: one answer per tier, and ok only if every one that was asked is empty (resetPrefixCache, prefix-reset.ts).
  const cases = [
    { tier: true, ok: true, connector: true },
    { tier: false, ok: false, connector: false },
    { tier: undefined, ok: true, connector: null },
  ];
  for (const { tier, ok, connector } of cases) {
    it(`the connector answers ${tier}: ok ${ok}`, () => {
      const driver = new RemoteDriver({}, { strict: true });
      driver.add({ id: 'r', prompt: prompt(9), maxTokens: 1 });
      driver.run();
      driver.connector.tier = tier;
      driver.connector.drain();
      const reset = driver.scheduler.resetPrefixCache({ resetConnector: true });
      expect(reset).toEqual({
        ok,
        local: true,
        connector,
        blockers: [],
        pinnedBlocks: 0,
        preempted: [],
        reclaimed: [],
      });
      expect(driver.connector.drain()).toEqual(['reset']);
      expect(driver.scheduler.stats().cachedBlocks).toBe(0);
    });
  }

  it('a connector that is not asked for is not asked, and says nothing', () => {
    const driver = new RemoteDriver({}, { strict: true });
    driver.connector.tier = false;
    expect(driver.scheduler.resetPrefixCache()).toMatchObject({ ok: true, local: true, connector: null });
    expect(driver.connector.calls).toEqual([]);
  });

  it('nor is it asked while the local cache keeps what it has: no tier is emptied alone', () => {
    const driver = new RemoteDriver({ r: { delayFree: true } }, { strict: true });
    driver.connector.tier = true;
    const r = driver.add({ id: 'r', maxTokens: 1 });
    driver.step();
    expect(driver.scheduler.resetPrefixCache(FORCED)).toMatchObject({
      ok: false,
      local: false,
      connector: null,
    });
    expect(driver.connector.calls).not.toContain('reset');
    driver.sent(r);
    expect(driver.free).toBe(allBlocks(driver.scheduler));
    expect(driver.scheduler.resetPrefixCache(FORCED)).toMatchObject({ ok: true, connector: true });
  });
});
