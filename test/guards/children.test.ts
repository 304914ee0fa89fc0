import { describe, expect, it } from 'vitest';
import { allBlocks, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';

const DEPTHS = [1, 2] as const;

describe('F42 reports of a child that does not own the load', () => {
  // Pinned by: loads are owned by the child that the match named, one use a rank (startLoading, begin-load.ts; applyReceived, reports.ts).
  for (const pipelineDepth of DEPTHS) {
    const owned = () => {
      const driver = new RemoteDriver(
        { r: { ext: 8, async: true, child: 1 } },
        { pipelineDepth, reporters: [[0], [0, 1]] },
      );
      return { driver, r: driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 2 }) };
    };

    it(`depth ${pipelineDepth}: an early report of another child promotes nothing and is counted`, () => {
      const { driver, r } = owned();
      driver.say({ finishedReceiving: [{ handle: r, child: 0, rank: 0 }] });
      driver.empty();
      driver.say({ finishedReceiving: [{ handle: r, child: 0, rank: 0 }] });
      expect(driver.anomalies).toEqual({ 'wrong-owner': 2 });
      expect(driver.request(r).status).toBe('WAITING_FOR_REMOTE_KVS');
      driver.received(r, { handle: r, child: 1, rank: 0 });
      driver.empty();
      driver.say({ finishedReceiving: [{ handle: r, child: 1, rank: 1 }] });
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: nor does it free an aborted request that the owner still writes`, () => {
      const { driver, r } = owned();
      driver.abort('r');
      for (const rank of [0, 1, 2]) driver.say({ finishedReceiving: [{ handle: r, child: 0, rank }] });
      driver.say({ finishedReceiving: [{ handle: r, child: 7, rank: 0 }] });
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      expect(driver.anomalies).toEqual({ 'wrong-owner': 4 });
      driver.received(r, { handle: r, child: 1, rank: 1 }, { handle: r, child: 1, rank: 0 });
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: late, when the request runs, it harms nothing`, () => {
      const { driver, r } = owned();
      driver.received(r, { handle: r, child: 1, rank: 0 }, { handle: r, child: 1, rank: 1 });
      driver.schedule();
      driver.report = { finishedReceiving: [{ handle: r, child: 0, rank: 0 }] };
      driver.update();
      driver.run();
      expect(driver.anomalies).toEqual({ 'live-completion': 1 });
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: a child that does not own the load cannot fail it`, () => {
      const { driver, r } = owned();
      driver.say({ failedReceiving: [{ handle: r, child: 0, rank: 0 }] });
      expect(driver.anomalies).toEqual({ 'wrong-owner': 1 });
      expect(driver.ends.get(r)).toEqual([]);
      driver.received(r, { handle: r, child: 1, rank: 0 }, { handle: r, child: 1, rank: 1 });
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    });

    it(`depth ${pipelineDepth}: nor can it by naming the blocks that the owner loads`, () => {
      const { driver, r } = owned();
      const [block] = driver.blocks(r);
      for (const invalid of [{ block }, { block, handle: r }, { block, handle: r, child: 0 }])
        driver.say({ invalidBlocks: [invalid] });
      expect(driver.anomalies).toEqual({ 'wrong-owner': 3 });
      expect(driver.scheduler.stats().failedLoads).toBe(0);
      driver.received(r, { handle: r, child: 1, rank: 0 }, { handle: r, child: 1, rank: 1 });
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
      expect(driver.ends.get(r)).toEqual(['length']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: the owner can, and the same holds for a load that a step reads`, () => {
      const scripts = { r: { ext: 8, child: 1 } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, reporters: [[0], [0]] });
      const r = driver.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      driver.schedule();
      const [block] = driver.blocks(r);
      driver.report = { invalidBlocks: [{ block, child: 0 }] };
      driver.update();
      expect(driver.anomalies).toEqual({ 'wrong-owner': 1 });
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 2));
      const failing = new RemoteDriver(scripts, { pipelineDepth, reporters: [[0], [0]], strict: true });
      const f = failing.add({ id: 'r', prompt: prompt(9), maxTokens: 2 });
      failing.schedule();
      failing.report = { invalidBlocks: [{ block: failing.blocks(f)[0], child: 1 }] };
      failing.update();
      expect(failing.ends.get(f)).toEqual(['error']);
      failing.run();
      expect(leftovers(failing.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: each of two children that send is waited for, each of its ranks`, () => {
      const scripts = { r: { delayFree: true, children: [0, 1] } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, reporters: [[0], [0, 1]] });
      const r = driver.add({ id: 'r', maxTokens: 1 });
      driver.step();
      driver.sent(r, { handle: r, child: 1, rank: 0 });
      driver.sent(r, { handle: r, child: 1, rank: 0 });
      driver.sent(r, { handle: r, child: 0, rank: 0 });
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      expect(driver.anomalies).toEqual({ 'duplicate-completion': 1 });
      driver.sent(r, { handle: r, child: 1, rank: 1 });
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: a fence of one child leaves what the other does`, () => {
      const scripts = {
        r: { ext: 8, async: true, child: 1, delayAbort: true, children: [0] },
      };
      const driver = new RemoteDriver(scripts, { pipelineDepth, reporters: [[0], [0, 1]] });
      driver.loading({ id: 'r', prompt: prompt(9) });
      driver.abort('r');
      expect(driver.scheduler.fenceTransfers(0)).toBe(1);
      expect(driver.scheduler.stats().outstanding).toMatchObject({ load: { count: 2 }, store: { count: 0 } });
      expect(driver.scheduler.fenceTransfers(0)).toBe(0);
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 2);
      expect(driver.scheduler.fenceTransfers(1)).toBe(1);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});

describe('F43 ranks of a child that never report', () => {
  // Pinned by: each child declares who reports (reportersOf, ask-connector.ts); a declared rank that is silent costs the deadline (endExpired, expiry.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: a child that is silent on a rank says so, and is not waited for there`, () => {
      const scripts = { r: { ext: 8, async: true, child: 1, delayFree: true, children: [1] } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, reporters: [[0, 1, 2], [2]] });
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 1 });
      driver.received(r, { handle: r, child: 1, rank: 2 });
      driver.run(20, () => driver.scheduler.numUnfinished > 0);
      expect(driver.text(r)).toEqual(driver.model.text(r, 1));
      driver.sent(r, { handle: r, child: 1, rank: 2 });
      driver.run();
      expect(driver.anomalies).toEqual({});
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: reports of a rank that was not declared count for nobody`, () => {
      const scripts = { r: { ext: 8, async: true, delayFree: true } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, reporters: [[1]] });
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 1 });
      driver.say({ finishedReceiving: [{ handle: r, rank: 0 }], finishedSending: [{ handle: r, rank: 0 }] });
      expect(driver.anomalies).toEqual({ 'wrong-owner': 2 });
      driver.received(r, 1);
      driver.run(20, () => driver.scheduler.numUnfinished > 0);
      expect(driver.free).toBe(allBlocks(driver.scheduler) - 3);
      driver.sent(r, 1);
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: a declared rank that stays silent costs a load its deadline, then its blocks are given up`, () => {
      let time = 0;
      const driver = new RemoteDriver(
        { r: { ext: 8, async: true } },
        { pipelineDepth, reporters: [[0, 1]], now: () => time, deadlines: { load: 100, reclaim: 50 } },
      );
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      driver.received(r, 0);
      time = 100;
      driver.update(driver.schedule());
      expect(driver.ends.get(r)).toEqual(['error']);
      expect(driver.scheduler.hasWork()).toBe(true);
      time = 150;
      driver.empty();
      expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 1, quarantinedBlocks: 2 });
      driver.empty();
      expect(driver.scheduler.hasWork()).toBe(false);
      driver.received(r, 1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: and a send its reclaim deadline`, () => {
      let time = 0;
      const driver = new RemoteDriver(
        { r: { delayFree: true } },
        { pipelineDepth, reporters: [[0, 1]], now: () => time, deadlines: { reclaim: 50 } },
      );
      const r = driver.add({ id: 'r', maxTokens: 1 });
      driver.step();
      driver.sent(r, 1);
      time = 49;
      driver.empty();
      expect(driver.scheduler.stats().numQuarantined).toBe(0);
      time = 50;
      driver.empty();
      expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 1, numDraining: 0, quarantines: 1 });
      expect(driver.scheduler.fenceTransfers()).toBe(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }
});
