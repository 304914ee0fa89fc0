// F61, F62: waits without an end.
import { describe, expect, it } from 'vitest';
import { leftovers, prompt } from '../support/driver.js';
import { EngineBench, leftovers as leftIn, outputs, rejection } from '../support/engine-bench.js';
import { FakeGrammar } from '../support/fake-grammar.js';
import { RemoteDriver } from './remote.js';
import { expectText } from './support.js';

const DEPTHS = [1, 2, 3] as const;

/** A driver on a clock that is set by hand; nothing is loaded. */
function timed(options: ConstructorParameters<typeof RemoteDriver>[1] = {}) {
  const clock = { now: 1000 };
  return { driver: new RemoteDriver({}, { now: () => clock.now, ...options }), clock };
}

// Pinned by: enterQueue and leaveQueue (deadlines.ts), where a request is added, preempted, admitted, and begins a chunk.
describe('F61 a request stands in the queue for ever', () => {
  for (const pipelineDepth of DEPTHS) {
    const deadlines = { queue: 100, streamingInput: 0 };

    it(`depth ${pipelineDepth}: for a place among the running requests`, () => {
      const { driver, clock } = timed({ pipelineDepth, maxNumSeqs: 1, deadlines });
      const runs = driver.add({ id: 'runs', maxTokens: 40 });
      driver.step();
      const waits = driver.add({ id: 'waits', prompt: prompt(8, 1) });
      clock.now = 1100;
      driver.run();
      expect([driver.ends.get(waits), driver.ends.get(runs)]).toEqual([['error'], ['length']]);
      expect(driver.connector.calls.filter((call) => call.startsWith('finished waits'))).toHaveLength(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: to be computed again after a preemption`, () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines });
      const handle = driver.add({ id: 'a', maxTokens: 40 });
      driver.step();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      driver.scheduler.pause('new');
      driver.scheduler.verify();
      clock.now = 1100;
      while (driver.inFlight.length > 0) driver.update();
      driver.update(driver.schedule());
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: for a place among the adapters`, () => {
      const { driver, clock } = timed({ pipelineDepth, maxLoras: 1, deadlines });
      driver.add({ id: 'runs', adapter: 'a', maxTokens: 40 });
      driver.step();
      const waits = driver.add({ id: 'waits', adapter: 'b', prompt: prompt(8, 1) });
      const request = driver.request(waits);
      driver.step();
      clock.now = 1100;
      driver.run();
      expect(driver.ends.get(waits)).toEqual(['error']);
      expect(request.failure).toContain(
        'for a place among the adapters of a step: deadlines.queue is 100 ms',
      );
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: with the next chunk of its session`, () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines });
      const handle = driver.add({ id: 's', maxTokens: 2, resumable: true });
      driver.run(50, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
      while (driver.inFlight.length > 0) driver.update();
      driver.scheduler.pause('new');
      driver.addChunk(handle, { maxTokens: 2 });
      driver.scheduler.verify();
      clock.now = 1100;
      driver.update(driver.schedule());
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: is not meant of one that runs, or waits for its client`, () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines });
      const runs = driver.add({ id: 'runs', maxTokens: 40 });
      const idle = driver.add({ id: 'idle', prompt: prompt(8, 1), maxTokens: 2, resumable: true });
      driver.run(50, () => driver.request(idle).status !== 'WAITING_FOR_STREAMING_REQ');
      clock.now = 9000;
      for (let i = 0; i < 5; i++) driver.step();
      expect([driver.request(runs).isFinished, driver.request(idle).isFinished]).toEqual([false, false]);
      expect(driver.scheduler.stats().queueTimeouts).toBe(0);
    });
  }

  it('a session whose connector was still thinking when its answer ended waits for its client, then anew', () => {
    const { driver, clock } = timed({
      ...{ pipelineDepth: 3, numBlocks: 5, blockSize: 4 },
      deadlines: { queue: 0, load: 50, streamingInput: 0 },
    });
    driver.add({ id: 'a', prompt: prompt(7), maxTokens: 6 });
    const handle = driver.add({ id: 's', prompt: prompt(6, 1), maxTokens: 2, resumable: true });
    const request = driver.request(handle);
    for (let i = 0; i < 3; i++) driver.schedule();
    expect(request.status).toBe('PREEMPTED');
    driver.update();
    driver.connector.instead.match = ({ id }) => ({ numTokens: id === 's' ? null : 0, async: false });
    driver.schedule();
    expect(request.waitReason).toBe('connector');
    driver.update();
    expect(request.waitReason).toBe('streaming-input');
    driver.scheduler.verify();
    driver.addChunk(handle, { maxTokens: 2 });
    driver.scheduler.verify();
    clock.now = 2000;
    driver.run(8, () => request.waitReason !== 'connector');
    driver.scheduler.verify();
    clock.now = 2050;
    driver.run(20, () => !request.isFinished);
    expect(driver.ends.get(handle)).toEqual(['error']);
  });
});

// Pinned by: endConnectorWait in `failSyncLoads` (load-failure.ts).
describe('F61 a request that was asked about for the last time still waits for its connector', () => {
  /**
   * Three loads of one request are in flight, the first has failed, and its connector answered that
   * it is to be asked later.
   */
  function askedForTheLastTime(wakes: boolean) {
    const { driver, clock } = timed({ pipelineDepth: 3, deadlines: { load: 50 } });
    driver.connector.instead.match = (request) => ({ numTokens: request.numTokens - 1, async: false });
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 40 });
    for (let i = 0; i < 3; i++) {
      driver.schedule();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
    }
    driver.connector.instead.match = () => ({ numTokens: null, async: false, wakes });
    const fail = () => {
      driver.report = { failedReceiving: [{ handle, rank: 0 }] };
      driver.update();
    };
    fail();
    driver.schedule();
    expect(driver.request(handle).waitReason).toBe('connector');
    fail();
    fail();
    return { driver, clock, handle };
  }

  for (const wakes of [false, true]) {
    it(`wakes: ${wakes}: it computes by itself, and no deadline of the wait ends it`, () => {
      const { driver, clock, handle } = askedForTheLastTime(wakes);
      driver.step();
      expect(driver.request(handle).status).toBe('RUNNING');
      driver.scheduler.verify();
      clock.now += 60;
      driver.run();
      expectText(driver, handle, 40);
      expect(driver.scheduler.stats().loadTimeouts).toBe(0);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`wakes: ${wakes}: preempted again, it waits for nothing but room`, () => {
      const { driver, handle } = askedForTheLastTime(wakes);
      driver.schedule();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      driver.scheduler.verify();
      expect(driver.request(handle).waitReason).toBe('resumption');
      driver.run();
      expectText(driver, handle, 40);
    });
  }
});

// Pinned by: `askGrammar` (expiry.ts).
it('F61 a request whose grammar is compiled finds no seat: the deadline of its grammar does not end it', () => {
  const { driver, clock } = timed({ maxNumSeqs: 1, deadlines: { grammar: 100 } });
  const runs = driver.add({ id: 'runs', prompt: prompt(8, 1), maxTokens: 9 });
  driver.step();
  const handle = driver.add({ id: 'g', prompt: prompt(9), maxTokens: 3, grammar: new FakeGrammar() });
  driver.step();
  clock.now += 200;
  driver.step();
  expect(driver.request(handle).waitReason).toBe('admission');
  driver.scheduler.verify();
  driver.run();
  expectText(driver, runs, 9);
  expectText(driver, handle, 3);
  expect(driver.scheduler.stats().grammarTimeouts).toBe(0);
  expect(leftovers(driver.scheduler)).toEqual([]);
});

// Pinned by: `mayBeAsked` (expiry.ts); `askedStep` in `waitForConnector` and `wake` (wait-for-connector.ts).
describe('F61 a request whose connector is to be asked again finds no seat', () => {
  /** `a` was asked about, and `runs` has taken the only seat. Nobody looks at `a` for longer than `deadlines.load`. */
  function seatless(wakes: boolean, wakesNow: boolean) {
    const { driver, clock } = timed({ maxNumSeqs: 1, deadlines: { load: 50 } });
    const later = { numTokens: null, async: false, wakes };
    driver.connector.instead.match = ({ id }) => (id === 'a' ? later : { numTokens: 0, async: false });
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    const runs = driver.add({ id: 'runs', prompt: prompt(8, 1), maxTokens: 9 });
    driver.step();
    expect([driver.request(handle).waitReason, driver.request(runs).status]).toEqual([
      'connector',
      'RUNNING',
    ]);
    clock.now += 10;
    if (wakesNow) expect(driver.connector.view.wake(handle)).toBe(true);
    clock.now += 90;
    driver.step();
    driver.scheduler.verify();
    return { driver, clock, handle, runs };
  }

  for (const wakes of [false, true]) {
    it(`wakes: ${wakes}: no deadline of its connector ends it, and it runs when it has been asked`, () => {
      const { driver, handle, runs } = seatless(wakes, wakes);
      driver.connector.instead.match = () => ({ numTokens: 0, async: false });
      driver.run();
      expectText(driver, runs, 9);
      expectText(driver, handle, 4);
      expect(driver.scheduler.stats().loadTimeouts).toBe(0);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`wakes: ${wakes}: its connector has its whole time when it is asked again, and no more`, () => {
      const { driver, clock, handle, runs } = seatless(wakes, wakes);
      driver.run(20, () => !driver.ends.get(runs)?.length);
      driver.step();
      const since = clock.now;
      expect(driver.scheduler.nextDeadline).toBe(since + 50);
      for (clock.now = since + 10; clock.now < since + 50; clock.now += 10) {
        // The connector is asked in each step, or when it wakes the request; a wake without an
        // answer gains no time.
        for (let i = 0; i < 2; i++) driver.step();
        if (wakes) driver.connector.view.wake(handle);
        driver.step();
        driver.scheduler.verify();
      }
      expect(driver.ends.get(handle)).toEqual([]);
      if (wakes) driver.connector.view.wake(handle);
      const request = driver.request(handle);
      driver.step();
      driver.step();
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(request.failure).toBe('waited 50 ms for its connector to say what it can load');
      expect(driver.scheduler.stats().loadTimeouts).toBe(1);
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('its connector was to wake it, and has not: its time is over without a seat too', () => {
    const { driver, handle } = seatless(true, false);
    driver.step();
    expect(driver.ends.get(handle)).toEqual(['error']);
    expect(driver.scheduler.stats().loadTimeouts).toBe(1);
  });

  it('its third load has failed: it waits for a seat alone', () => {
    const { driver, clock } = timed({ pipelineDepth: 3, maxNumSeqs: 1, deadlines: { load: 50 } });
    driver.connector.instead.match = (request) => ({ numTokens: request.numTokens - 1, async: false });
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 4 });
    for (let i = 0; i < 3; i++) {
      driver.schedule();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
    }
    const later = { numTokens: null, async: false, wakes: true };
    driver.connector.instead.match = ({ id }) => (id === 'a' ? later : { numTokens: 0, async: false });
    const runs = driver.add({ id: 'runs', prompt: prompt(8, 1), maxTokens: 9 });
    const fail = () => {
      driver.report = { failedReceiving: [{ handle, rank: 0 }] };
      driver.update();
    };
    fail();
    driver.schedule();
    expect([driver.request(handle).waitReason, driver.request(runs).status]).toEqual([
      'connector',
      'RUNNING',
    ]);
    fail();
    fail();
    expect(driver.request(handle).waitReason).toBe('resumption');
    clock.now += 60;
    driver.run();
    expectText(driver, runs, 9);
    expectText(driver, handle, 4);
    expect(driver.scheduler.stats().loadTimeouts).toBe(0);
  });
});

// Pinned by: limitWhole (deadlines.ts), where a request is added and a chunk begins; endExpired; `timeoutMs` of submission.ts.
describe('F62 a request takes for ever', () => {
  for (const pipelineDepth of DEPTHS) {
    it(`depth ${pipelineDepth}: one that runs ends when its time is over, and its connector is told once`, () => {
      const { driver, clock } = timed({ pipelineDepth });
      const handle = driver.add({ id: 'a', maxTokens: 60, timeoutMs: 50 });
      const other = driver.add({ id: 'b', prompt: prompt(8, 1), maxTokens: 10 });
      driver.step();
      clock.now = 1050;
      driver.run();
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(driver.connector.calls.filter((call) => call.startsWith('finished a'))).toHaveLength(1);
      expect(driver.text(other)).toEqual(driver.model.text(other, 10));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`depth ${pipelineDepth}: the time of a queued chunk runs from when it came`, () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines: { streamingInput: 0 } });
      const handle = driver.add({ id: 's', maxTokens: 4, resumable: true, timeoutMs: 50 });
      clock.now = 1010;
      driver.addChunk(handle, { maxTokens: 60 });
      clock.now = 1040;
      driver.run(30, () => driver.scheduler.nextDeadline === 1050);
      expect(driver.scheduler.nextDeadline).toBe(1060);
      driver.scheduler.verify();
    });
  }

  it('the stream fails with the reason, explain tells what is left, and a grammar does not delay it', async () => {
    const bench = new EngineBench({ deadlines: { queue: 300, grammar: 200 } });
    const stream = bench.submit({ id: 'g', grammar: new FakeGrammar({ notReady: 1e6 }), timeoutMs: 100 });
    bench.engine.step();
    bench.time += 30;
    expect(bench.engine.explain('g')).toMatch(
      /for its grammar; left: 170 ms of deadlines.grammar, 270 ms of deadlines.queue, 70 ms of its timeoutMs$/,
    );
    bench.time += 70;
    bench.steps();
    expect(await rejection(stream.result())).toMatchObject({
      code: 'ERR_BLOCKSTEP_REQUEST',
      message: 'request "g" failed: took 100 ms and had not ended: its timeoutMs is 100 ms',
    });
    const fine = bench.submit({ id: 'fine', timeoutMs: 100 });
    bench.steps();
    expect((await outputs(fine)).at(-1)?.finishReason).toBe('length');
    expect(bench.engine.stats().scheduler).toMatchObject({ requestTimeouts: 1, queueTimeouts: 0 });
    expect(leftIn(bench.engine)).toEqual([]);
  });
});
