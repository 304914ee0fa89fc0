// `deadlines.queue` and `timeoutMs`.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { replayInputs } from '../../../src/scheduler/replay/log-replay.js';
import { codeOf, Driver, describePlan, leftovers, prompt } from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';
import { MemorySink } from '../../support/recorded-log.js';

/** A driver whose clock is set by hand. */
function timed(options: Partial<SchedulerOptions> = {}): { driver: Driver; clock: { now: number } } {
  const clock = { now: 1000 };
  return { driver: new Driver({ now: () => clock.now, ...options }), clock };
}

const QUEUE = { deadlines: { queue: 100 } };

for (const pipelineDepth of [1, 2, 3] as const) {
  describe(`depth ${pipelineDepth}: deadlines.queue`, () => {
    it('ends what was not scheduled in time, with a row and a reason, and leaves what runs alone', () => {
      const { driver, clock } = timed({ pipelineDepth, maxNumSeqs: 1, ...QUEUE });
      const { scheduler } = driver;
      const runs = driver.add({ id: 'runs', maxTokens: 60 });
      expect(scheduler.nextDeadline).toBe(1100);
      driver.step();
      expect(scheduler.nextDeadline).toBe(Infinity);
      clock.now = 1010;
      const waits = driver.add({ id: 'waits' });
      const request = driver.request(waits);
      clock.now = 1109;
      driver.step();
      expect([request.isFinished, scheduler.nextDeadline]).toEqual([false, 1110]);
      clock.now = 1110;
      driver.step();
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.ends.get(waits)).toEqual(['error']);
      expect(request.failure).toBe(
        'waited 100 ms to be scheduled, at last for a place among the running requests: deadlines.queue is 100 ms',
      );
      expect(scheduler.stats()).toMatchObject({ queueTimeouts: 1, requestTimeouts: 0 });
      expect(scheduler.stats().anomalies).toEqual({});
      clock.now = 9000;
      driver.run();
      expect(driver.ends.get(runs)).toEqual(['length']);
      expect(leftovers(scheduler)).toEqual([]);
    });

    it('begins anew with a preemption, and ends when the request is scheduled again', () => {
      const { driver, clock } = timed({ pipelineDepth, ...QUEUE });
      const handle = driver.add({ id: 'a', maxTokens: 60 });
      driver.step();
      clock.now = 5000;
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      expect(driver.request(handle).status).toBe('PREEMPTED');
      expect(driver.scheduler.nextDeadline).toBe(5100);
      driver.scheduler.verify();
      driver.step();
      expect(driver.scheduler.nextDeadline).toBe(Infinity);
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      driver.scheduler.pause('new');
      clock.now = 5100;
      while (driver.inFlight.length > 0) driver.update();
      driver.update(driver.schedule());
      expect(driver.ends.get(handle)).toEqual(['error']);
    });

    it('of a session begins with each turn, and rests while it waits for input', () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines: { queue: 100, streamingInput: 0 } });
      const handle = driver.add({ id: 's', maxTokens: 2, resumable: true });
      driver.run(50, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.scheduler.nextDeadline).toBe(Infinity);
      clock.now = 3000;
      driver.scheduler.pause('new');
      driver.addChunk(handle, { maxTokens: 2 });
      expect(driver.scheduler.nextDeadline).toBe(3100);
      driver.scheduler.verify();
      clock.now = 3100;
      driver.update(driver.schedule());
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  });

  describe(`depth ${pipelineDepth}: timeoutMs`, () => {
    it('ends a request that runs, and drops what is in flight for it', () => {
      const { driver, clock } = timed({ pipelineDepth });
      const handle = driver.add({ id: 'a', maxTokens: 90, timeoutMs: 50 });
      const other = driver.add({ id: 'b', prompt: prompt(8, 1), maxTokens: 20 });
      driver.step();
      const request = driver.request(handle);
      clock.now = 1049;
      driver.step();
      expect(request.isFinished).toBe(false);
      const known = request.numOutputTokens;
      clock.now = 1050;
      driver.step();
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(request.failure).toBe('took 50 ms and had not ended: its timeoutMs is 50 ms');
      expect(request.numOutputTokens).toBeGreaterThanOrEqual(known);
      expect(driver.scheduler.stats()).toMatchObject({ requestTimeouts: 1, queueTimeouts: 0 });
      expect(driver.scheduler.stats().anomalies).toEqual({});
      driver.run();
      expect(driver.text(other)).toEqual(driver.model.text(other, 20));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('of a session counts from each chunk, queued ones too, to the end of its answer', () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines: { streamingInput: 0 } });
      const handle = driver.add({ id: 's', maxTokens: 2, resumable: true, timeoutMs: 50 });
      const untilIdle = () => {
        driver.run(50, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
        while (driver.inFlight.length > 0) driver.update();
      };
      untilIdle();
      expect(driver.scheduler.nextDeadline).toBe(Infinity);
      clock.now = 3000;
      driver.addChunk(handle, { maxTokens: 2 });
      clock.now = 3020;
      driver.addChunk(handle, { maxTokens: 90 });
      expect(driver.scheduler.nextDeadline).toBe(3050);
      for (let i = 0; i < 20 && driver.scheduler.nextDeadline === 3050; i++) driver.step();
      expect(driver.scheduler.nextDeadline).toBe(3070);
      driver.scheduler.verify();
      clock.now = 3070;
      driver.step();
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it('gives blocks that a transfer uses back when that is over, or quarantines them', () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines: { reclaim: 30 } });
      const handle = driver.add({ id: 'a', maxTokens: 90, timeoutMs: 50 });
      driver.step();
      driver.scheduler.hold(handle, 'store', 'job');
      clock.now = 1050;
      driver.step();
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.scheduler.stats()).toMatchObject({ numDraining: 1, requestTimeouts: 1 });
      expect(driver.scheduler.nextDeadline).toBe(1080);
      clock.now = 1080;
      driver.update(driver.schedule());
      expect(driver.scheduler.stats()).toMatchObject({ numQuarantined: 1, quarantines: 1 });
      driver.scheduler.complete(handle, 'store', 'job');
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  });

  it(`depth ${pipelineDepth}: a log of what expired is replayed to the same plans and the same state`, () => {
    const log = new MemorySink();
    const { driver, clock } = timed({ pipelineDepth, maxNumSeqs: 2, deadlines: { queue: 40 }, log });
    const plans: string[] = [];
    for (let i = 0; i < 60; i++) {
      const timeoutMs = i % 3 === 0 ? { timeoutMs: 25 + i } : {};
      driver.add({ id: `r${i}`, prompt: prompt(5 + (i % 7), i), maxTokens: 3 + (i % 9), ...timeoutMs });
      clock.now += 7;
      if (driver.inFlight.length < pipelineDepth) plans.push(describePlan(driver.schedule()));
      if (driver.inFlight.length > 0) driver.update();
      driver.scheduler.verify();
    }
    const { queueTimeouts, requestTimeouts, finished } = driver.scheduler.stats();
    expect(Math.min(queueTimeouts, requestTimeouts, finished.length)).toBeGreaterThan(2);
    const again: string[] = [];
    const replayed = replayInputs(log.bytes, (plan) => again.push(describePlan(plan)));
    expect(again).toEqual(plans);
    expect(replayed.digest()).toBe(driver.scheduler.digest());
    expect(replayed.stats()).toMatchObject({ queueTimeouts, requestTimeouts, finished });
    replayed.dispose();
  });
}

describe('of several deadlines', () => {
  it('the earliest ends the request, and is the one that is named', () => {
    const cases = [
      [{ queue: 300, grammar: 200 }, 100, 1100, /its timeoutMs is 100 ms$/],
      [{ queue: 100, grammar: 200 }, 300, 1100, /at last for its grammar: deadlines.queue is 100 ms$/],
      [{ queue: 300, grammar: 100 }, 200, 1100, /^waited 100 ms for its grammar$/],
    ] as const;
    for (const [deadlines, timeoutMs, due, words] of cases) {
      const { driver, clock } = timed({ deadlines });
      const handle = driver.add({ id: 'g', grammar: new FakeGrammar({ notReady: 1e6 }), timeoutMs });
      const request = driver.request(handle);
      expect(driver.scheduler.nextDeadline).toBe(due);
      clock.now = due;
      driver.update(driver.schedule());
      expect([driver.ends.get(handle), request.failure]).toEqual([['error'], expect.stringMatching(words)]);
      expect(driver.scheduler.nextDeadline).toBe(Infinity);
    }
  });

  it('each is refused if it is none, and nothing is changed', () => {
    const driver = new Driver();
    for (const timeoutMs of [0, -1, Number.NaN, -Infinity, 1e15, '5', null, 5n]) {
      const add = () => driver.add({ id: 'a', timeoutMs: timeoutMs as number });
      expect(codeOf(add)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(driver.scheduler.hasWork()).toBe(false);
    for (const queue of [-1, Number.NaN, Infinity, '5']) {
      const make = () => new Driver({ deadlines: { queue: queue as number } });
      expect(codeOf(make)).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    driver.add({ id: 'a', timeoutMs: Infinity });
    expect(driver.scheduler.nextDeadline).toBe(Infinity);
    driver.run();
  });
});
