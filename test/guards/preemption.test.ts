// F35, F36, F37, F39: preemption of requests that load, deliver, or have blocks in use.
import { describe, expect, it } from 'vitest';
import { EntryKind } from '../../src/index.js';
import { allBlocks, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';

const DEPTHS = [1, 2] as const;

/** Preempts every running request, and updates every step in flight. */
function preemptAll(driver: RemoteDriver): void {
  driver.scheduler.resetPrefixCache({ resetRunning: true });
  while (driver.inFlight.length > 0) driver.update();
}

describe('F35 a preempted request that loads', () => {
  // Pinned by: endLoading makes it PREEMPTED again (loading.ts), and the plan says so (enterPlan, waiting-pass.ts).
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: comes back as resumed, not as new, with its whole token list`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth, strict: true });
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 6 });
      driver.received(r);
      const first = driver.schedule();
      expect(first.kinds[0]).toBe(EntryKind.new);
      driver.update();
      preemptAll(driver);
      driver.empty();
      expect(driver.request(r).status).toBe('WAITING_FOR_REMOTE_KVS');
      driver.received(r);
      const again = driver.schedule();
      expect([again.kinds[0], again.needsAllTokens[0]]).toEqual([EntryKind.resumed, 1]);
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 6));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: what can be transferred once is offered once; then it is computed`, () => {
      const scripts = { r: { ext: 8, async: true, oneshot: true } };
      const driver = new RemoteDriver(scripts, { pipelineDepth, strict: true });
      const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 6 });
      driver.received(r);
      driver.schedule();
      driver.update();
      preemptAll(driver);
      const again = driver.schedule();
      expect([again.kinds[0], again.numComputedTokens[0]]).toEqual([EntryKind.resumed, 0]);
      expect(driver.scheduler.stats().numLoading).toBe(0);
      driver.run();
      expect(driver.connector.loads).toHaveLength(1);
      expect(driver.text(r)).toEqual(driver.model.text(r, 6));
    });

    it(`depth ${pipelineDepth}: one that was never preempted is new after its load`, () => {
      const driver = new RemoteDriver({ r: { ext: 8, async: true } }, { pipelineDepth });
      const r = driver.loading({ id: 'r', prompt: prompt(9) });
      driver.received(r);
      expect(driver.schedule().kinds[0]).toBe(EntryKind.new);
    });
  }
});

describe('F36 a request that must deliver is preempted in its final step, and stops', () => {
  // Pinned by: mustRecompute (update-pass.ts), deviation finalTokenDelivery.
  /** `o` takes the block of `r` while the step with the last token of `r` is in flight. */
  function preemptedInFinalStep(delivers: boolean, finalTokenDelivery = true) {
    const scripts = { r: { delayFree: true, delivers } };
    const driver = new RemoteDriver(scripts, {
      pipelineDepth: 2,
      numBlocks: 6,
      deviations: finalTokenDelivery || ['finalTokenDelivery'],
    });
    const o = driver.add({ id: 'o', prompt: prompt(7), maxTokens: 4 });
    const r = driver.add({ id: 'r', prompt: prompt(9, 1), maxTokens: 2 });
    driver.schedule();
    driver.schedule();
    driver.update();
    expect(driver.schedule().preempted).toEqual(['r']);
    driver.update();
    driver.scheduler.verify();
    return { driver, o, r };
  }

  it('on: its last token is computed again, and it ends with blocks to send, told once', () => {
    const { driver, o, r } = preemptedInFinalStep(true);
    expect(driver.ends.get(r)).toEqual([]);
    expect(driver.text(r)).toHaveLength(1);
    driver.run(50, () => driver.scheduler.numUnfinished > 0);
    expect(driver.connector.drain().filter((call) => call.startsWith('finished r'))).toEqual([
      'finished r length 3',
    ]);
    expect(driver.request(r).finishedParams).toEqual({ remote: 'r' });
    expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    expect(driver.text(o)).toEqual(driver.model.text(o, 4));
    expect(driver.ends.get(r)).toEqual(['length']);
    driver.sent(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('one that need not deliver ends with no blocks, and the connector is told so, once', () => {
    const { driver, r } = preemptedInFinalStep(false);
    expect(driver.ends.get(r)).toEqual(['length']);
    driver.run();
    expect(driver.connector.drain().filter((call) => call.startsWith('finished r'))).toEqual([
      'finished r length 0',
    ]);
    expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  /** As above, with a third step in flight in which `r` runs again, over blocks that this step is still to write. */
  function admittedAgain(delivers: boolean) {
    const scripts = { r: { delayFree: true, delivers } };
    const driver = new RemoteDriver(scripts, { pipelineDepth: 3, numBlocks: 6, enablePrefixCaching: false });
    const o = driver.add({ id: 'o', prompt: prompt(7), maxTokens: 12 });
    const r = driver.add({ id: 'r', prompt: prompt(9, 1), maxTokens: 2 });
    driver.schedule();
    driver.schedule();
    driver.update();
    expect(driver.schedule().preempted).toEqual(['r']);
    driver.abort(o);
    const plan = driver.schedule();
    expect([driver.ids(plan), plan.kinds[0]]).toEqual([['r'], EntryKind.resumed]);
    return { driver, r };
  }

  it('admitted again behind it: it is told how much can be read, and from which step on', () => {
    const { driver, r } = admittedAgain(false);
    driver.update();
    expect(driver.ends.get(r)).toEqual(['length']);
    const [{ handOver }] = driver.connector.handOvers.filter(({ id }) => id === 'r');
    expect(handOver).toMatchObject({ numTokens: 10, numSettledTokens: 0, readableFrom: 3 });
    driver.update();
    driver.update();
    driver.sent(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('admitted again behind it, and it must deliver: it is computed once more, and ends with settled blocks', () => {
    const { driver, r } = admittedAgain(true);
    driver.update();
    expect(driver.ends.get(r)).toEqual([]);
    driver.scheduler.verify();
    driver.run(50, () => driver.scheduler.numUnfinished > 0);
    expect(driver.text(r)).toEqual(driver.model.text(r, 2));
    const told = driver.connector.handOvers.filter(({ id }) => id === 'r');
    expect(told).toHaveLength(1);
    expect(told[0].handOver.numSettledTokens).toBe(10);
    driver.sent(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a stop token is dropped and said again too, and the stop reason stays', () => {
    const scripts = { r: { delayFree: true, delivers: true } };
    const tokenAt = (input: { id: string }, position: number) =>
      input.id === 'r' && position === 10 ? 77 : 100 + position;
    const driver = new RemoteDriver(scripts, { pipelineDepth: 2, numBlocks: 6 }, { tokenAt });
    driver.add({ id: 'o', prompt: prompt(7), maxTokens: 4 });
    const r = driver.add({ id: 'r', prompt: prompt(9, 1), maxTokens: 20, stopTokenIds: [77] });
    driver.schedule();
    driver.schedule();
    driver.update();
    expect(driver.schedule().preempted).toEqual(['r']);
    driver.update();
    expect(driver.request(r)).toMatchObject({ stopReason: null, numTokens: 10 });
    driver.run(50, () => driver.scheduler.numUnfinished > 0);
    expect(driver.text(r)).toEqual([109, 77]);
    expect(driver.request(r).stopReason).toBe(77);
    driver.sent(r);
    driver.run();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('aborted while it waits to be computed again it ends as aborted, once', () => {
    const { driver, r } = preemptedInFinalStep(true);
    driver.abort('r');
    driver.run();
    expect(driver.ends.get(r)).toEqual(['abort']);
    expect(driver.connector.drain().filter((call) => call.startsWith('finished r'))).toEqual([
      'finished r abort 0',
    ]);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('F37 a preemption while something uses the blocks', () => {
  // Pinned by: blocks that are used stay pinned (giveBlocksBack, preempt.ts) until no use is left (releaseIfDrained, finish.ts).
  for (const pipelineDepth of DEPTHS) {
    const preempted = () => {
      const driver = new RemoteDriver({}, { pipelineDepth, numBlocks: 9, strict: true });
      const r = driver.add({ id: 'r', prompt: prompt(11), maxTokens: 3 });
      driver.schedule();
      const old = driver.blocks(r);
      expect(old).toHaveLength(3);
      driver.scheduler.hold(r, 'store', 'job');
      preemptAll(driver);
      driver.scheduler.verify();
      return { driver, r, old };
    };

    it(`depth ${pipelineDepth}: nobody gets them until the transfer has ended`, () => {
      const { driver, r, old } = preempted();
      expect(driver.free).toBe(5);
      driver.scheduler.pause('new');
      const q = driver.add({ id: 'q', prompt: prompt(15, 1), maxTokens: 2 });
      driver.abort('r');
      driver.scheduler.resume();
      driver.schedule();
      expect(driver.blocks(q).filter((id) => old.includes(id))).toEqual([]);
      driver.add({ id: 'p', prompt: prompt(7, 2), maxTokens: 2 });
      driver.update();
      const plan = driver.schedule();
      expect(driver.ids(plan)).not.toContain('p');
      expect(driver.scheduler.complete(r, 'store', 'job')).toBe(true);
      driver.scheduler.verify();
      driver.run();
      expect(driver.text(q)).toEqual(driver.model.text(q, 2));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: it runs again meanwhile, and they come back with the transfer, not with its end`, () => {
      const { driver, r, old } = preempted();
      driver.run(30, () => driver.scheduler.numUnfinished > 0);
      expect(driver.text(r)).toEqual(driver.model.text(r, 3));
      // The request found its old prefix, which lies in blocks that stayed.
      expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, preemptedHits: 8 });
      const free = driver.free;
      expect(free).toBeLessThanOrEqual(allBlocks(driver.scheduler) - old.length);
      driver.scheduler.complete(r, 'store', 'job');
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: the transfer may end before it runs again`, () => {
      const { driver, r } = preempted();
      expect(driver.request(r).keptBlocks).toHaveLength(3);
      driver.scheduler.complete(r, 'store', 'job');
      driver.scheduler.verify();
      expect(driver.free).toBe(allBlocks(driver.scheduler));
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 3));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: it may load again while its store is in flight, into other blocks`, () => {
      for (const storeFirst of [true, false]) {
        const scripts = { r: { ext: 8, async: true } };
        const options = { pipelineDepth, numBlocks: 9, enablePrefixCaching: false, strict: true };
        const driver = new RemoteDriver(scripts, options);
        const r = driver.loading({ id: 'r', prompt: prompt(9), maxTokens: 3 });
        driver.received(r);
        driver.schedule();
        const old = driver.blocks(r);
        driver.scheduler.hold(r, 'store', 'job');
        preemptAll(driver);
        driver.empty();
        expect(driver.request(r).status).toBe('WAITING_FOR_REMOTE_KVS');
        expect(driver.blocks(r).filter((id) => old.includes(id))).toEqual([]);
        const ends = [() => driver.scheduler.complete(r, 'store', 'job'), () => driver.received(r)];
        for (const end of storeFirst ? ends : ends.reverse()) {
          end();
          driver.scheduler.verify();
        }
        driver.run();
        expect(driver.text(r)).toEqual(driver.model.text(r, 3));
        expect(leftovers(driver.scheduler)).toEqual([]);
      }
    });

    it(`depth ${pipelineDepth}: preempted twice under the same store, each residency's blocks stay`, () => {
      const { driver, r } = preempted();
      driver.schedule();
      driver.update();
      preemptAll(driver);
      driver.scheduler.verify();
      driver.scheduler.complete(r, 'store', 'job');
      driver.scheduler.verify();
      expect(driver.free).toBe(allBlocks(driver.scheduler));
      driver.run();
      expect(driver.text(r)).toEqual(driver.model.text(r, 3));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('workers are told with the very step that takes its blocks, and once', () => {
    const driver = new RemoteDriver({}, { numBlocks: 6 });
    driver.add({ id: 'o', prompt: prompt(7), maxTokens: 8 });
    const r = driver.add({ id: 'r', prompt: prompt(11, 1), maxTokens: 4 });
    const told: [string[], number[]][] = [];
    while (driver.scheduler.hasWork()) {
      const plan = driver.schedule();
      told.push([[...plan.preempted], [...plan.releasedHandles]]);
      driver.update(plan);
    }
    expect(told.filter(([victims, released]) => victims.length + released.length > 0)).toEqual([
      [['r'], [r]],
    ]);
    expect(driver.text(r)).toEqual(driver.model.text(r, 4));
  });

  it('one whose blocks are used is not the victim, since it would give none', () => {
    const driver = new RemoteDriver({}, { numBlocks: 8, strict: true });
    const a = driver.add({ id: 'a', prompt: prompt(7), maxTokens: 6 });
    const b = driver.add({ id: 'b', prompt: prompt(7, 1), maxTokens: 3 });
    const c = driver.add({ id: 'c', prompt: prompt(9, 2), maxTokens: 3 });
    driver.step();
    driver.scheduler.hold(c, 'store', 'job');
    driver.step();
    expect(driver.schedule().preempted).toEqual(['b']);
    driver.update();
    driver.scheduler.complete(c, 'store', 'job');
    driver.run();
    for (const [handle, count] of [
      [a, 6],
      [b, 3],
      [c, 3],
    ]) {
      expect(driver.text(handle)).toEqual(driver.model.text(handle, count));
    }
  });
});

describe('F39 preemption of requests whose blocks do not come back', () => {
  // Pinned by: freed blocks go back at once; those that are used are taken last (chooseVictim, running-pass.ts), and then wait.
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: all are used: it does not go round in preemptions, and goes on when a use ends`, () => {
      const driver = new RemoteDriver({}, { pipelineDepth, numBlocks: 8, strict: true });
      const handles = [0, 1, 2].map((seed) =>
        driver.add({ id: `r${seed}`, prompt: prompt(7, seed), maxTokens: 6 }),
      );
      driver.step();
      for (const handle of handles) driver.scheduler.hold(handle, 'store', 'job');
      for (let i = 0; i < 30; i++) {
        const plan = driver.schedule();
        if (plan.totalTokens > 0 || driver.inFlight.length > 0) driver.update();
        driver.scheduler.verify();
      }
      expect(driver.scheduler.stats().numPreemptions).toBeLessThanOrEqual(2 * handles.length);
      for (const handle of handles) driver.scheduler.complete(handle, 'store', 'job');
      driver.run();
      for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 6));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('where the one that would give its blocks was passed over in this step, nobody loses a turn', () => {
    const driver = new RemoteDriver({}, { pipelineDepth: 2, numBlocks: 4, strict: true });
    driver.add({ id: 'ends', prompt: prompt(3), maxTokens: 2 });
    driver.schedule();
    const used = [4, 2].map((length) =>
      driver.add({ id: `r${length}`, prompt: prompt(length, length), maxTokens: 3 }),
    );
    driver.schedule();
    driver.update();
    for (const handle of used) driver.scheduler.hold(handle, 'store', 'job');
    // The step in flight generates the last token of `ends`; r4 needs a second block, and r2 is
    // behind it.
    const plan = driver.schedule();
    expect([plan.preempted, driver.ids(plan)]).toEqual([['ends'], ['r4', 'r2']]);
    for (const handle of used) driver.scheduler.complete(handle, 'store', 'job');
    driver.run();
    for (const handle of used) expect(driver.text(handle)).toEqual(driver.model.text(handle, 3));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('where one would give its blocks, it is the one, and no other is preempted before it', () => {
    const driver = new RemoteDriver({}, { numBlocks: 10, strict: true });
    const handles = [7, 7, 9, 5].map((length, i) =>
      driver.add({ id: `r${i}`, prompt: prompt(length, i), maxTokens: 6 }),
    );
    driver.step();
    for (const used of handles.slice(2)) driver.scheduler.hold(used, 'store', 'job');
    driver.step();
    expect(driver.free).toBe(0);
    expect(driver.schedule().preempted).toEqual(['r1']);
    driver.update();
    for (const used of handles.slice(2)) driver.scheduler.complete(used, 'store', 'job');
    driver.run();
    for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 6));
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});
