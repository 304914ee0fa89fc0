import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import { DEFAULT_DEADLINES } from '../../../src/scheduler/request/wait.js';
import { Driver, leftovers, prompt } from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';

/** A driver whose clock is set by hand. */
function timed(options: Partial<WithRules<SchedulerOptions>> = {}): {
  driver: Driver;
  clock: { now: number };
} {
  const clock = { now: 1000 };
  return { driver: new Driver({ now: () => clock.now, ...options }), clock };
}

function addIdle(driver: Driver, id = 's'): number {
  const handle = driver.add({ id, prompt: prompt(9), maxTokens: 2, resumable: true });
  driver.run(50, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
  while (driver.inFlight.length > 0) driver.update();
  return handle;
}

describe('the deadlines', () => {
  it('are those of the design unless given', () => {
    expect(DEFAULT_DEADLINES).toEqual({
      queue: 0,
      streamingInput: 600_000,
      grammar: 60_000,
      load: 120_000,
      reclaim: 60_000,
    });
    expect(new Driver().scheduler.config.deadlines).toEqual(DEFAULT_DEADLINES);
    const some = new Driver({ deadlines: { grammar: 5 } });
    expect(some.scheduler.config.deadlines).toEqual({ ...DEFAULT_DEADLINES, grammar: 5 });
    const none = new Driver({ deadlines: false });
    expect(none.scheduler.config.deadlines).toEqual({
      queue: 0,
      streamingInput: 0,
      grammar: 0,
      load: 0,
      reclaim: 0,
    });
  });
});

for (const pipelineDepth of [1, 2, 3] as const) {
  describe(`depth ${pipelineDepth}: a session that waits for input`, () => {
    it('ends with error when its time is over, at the next schedule, with a row and a reason', () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines: { streamingInput: 500 } });
      const { scheduler } = driver;
      expect(scheduler.nextDeadline).toBe(Infinity);
      const handle = addIdle(driver);
      const request = driver.request(handle);
      expect([scheduler.nextDeadline, scheduler.hasWork(), request.waitingSince]).toEqual([
        1500,
        false,
        1000,
      ]);
      clock.now = 1499;
      driver.schedule();
      expect(request.isFinished).toBe(false);
      clock.now = 1500;
      const plan = driver.schedule();
      expect([plan.totalTokens, plan.finished, scheduler.hasWork()]).toEqual([0, ['s'], true]);
      driver.update(plan);
      expect(driver.last).toEqual(['s:0:error']);
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(request.failure).toBe('waited 500 ms for the next chunk of its session');
      expect(scheduler.stats()).toMatchObject({ streamingInputTimeouts: 1 });
      expect(scheduler.stats().anomalies).toEqual({});
      expect([scheduler.nextDeadline, scheduler.hasWork()]).toEqual([Infinity, false]);
      expect(driver.addChunk(handle)).toBe('skipped');
      expect(leftovers(scheduler)).toEqual([]);
    });

    it('has a new deadline for each wait, and none while it is answered', () => {
      const { driver, clock } = timed({ pipelineDepth, deadlines: { streamingInput: 500 } });
      const handle = addIdle(driver);
      clock.now = 1400;
      driver.addChunk(handle, { maxTokens: 2 });
      expect(driver.scheduler.nextDeadline).toBe(Infinity);
      clock.now = 9000;
      driver.run(50, () => driver.request(handle).status !== 'WAITING_FOR_STREAMING_REQ');
      expect(driver.scheduler.nextDeadline).toBe(9500);
      driver.endSession(handle);
      expect(driver.scheduler.nextDeadline).toBe(Infinity);
    });
  });
}

describe('a request that waits for its grammar', () => {
  it('ends with error when its time is over, and is not asked any more', () => {
    const { driver, clock } = timed({ deadlines: { grammar: 100 } });
    const grammar = new FakeGrammar({ notReady: 1000 });
    const handle = driver.add({ id: 'g', grammar });
    const request = driver.request(handle);
    driver.schedule();
    clock.now = 1100;
    driver.update(driver.schedule());
    expect(driver.ends.get(handle)).toEqual(['error']);
    expect(grammar.asked).toEqual(['ready', 'ready']);
    expect(request.failure).toBe('waited 100 ms for its grammar');
    expect(driver.scheduler.stats()).toMatchObject({ grammarTimeouts: 1 });
    expect(driver.scheduler.stats().anomalies).toEqual({});
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('has no deadline any more when it is ready, also if it cannot be admitted', () => {
    const { driver, clock } = timed({ deadlines: { grammar: 100 }, numBlocks: 5, maxNumSeqs: 2 });
    driver.add({ id: 'big', prompt: prompt(14), maxTokens: 2 });
    driver.step();
    const handle = driver.add({ id: 'g', prompt: prompt(9, 1), maxTokens: 2, grammar: new FakeGrammar() });
    driver.schedule();
    expect(driver.request(handle).status).toBe('WAITING');
    expect(driver.request(handle).container).toBe('skipped');
    clock.now = 9000;
    driver.update();
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
  });

  it('runs if the grammar was ready when its time was over, and no step had reached the request', () => {
    const { driver, clock } = timed({ deadlines: { grammar: 100 }, maxNumSeqs: 1 });
    const runs = driver.add({ id: 'runs', maxTokens: 9 });
    driver.step();
    const grammar = new FakeGrammar();
    const handle = driver.add({ id: 'g', maxTokens: 3, grammar });
    driver.step();
    expect(grammar.asked).toEqual([]);
    clock.now += 200;
    driver.step();
    expect(grammar.asked).toEqual(['ready']);
    expect(driver.request(handle).waitReason).toBe('admission');
    driver.scheduler.verify();
    driver.run();
    expect([driver.ends.get(runs), driver.ends.get(handle)]).toEqual([['length'], ['length']]);
    expect(driver.scheduler.stats().grammarTimeouts).toBe(0);
  });

  for (const grammarFailures of ['schedule', 'update'] as const) {
    it(`${grammarFailures}: ends with what its grammar threw when its time was over`, () => {
      const { driver, clock } = timed({ deadlines: { grammar: 100 }, maxNumSeqs: 1, grammarFailures });
      driver.add({ id: 'runs', maxTokens: 9 });
      driver.step();
      const grammar = new FakeGrammar();
      grammar.ready = () => {
        throw new Error('no such grammar');
      };
      const handle = driver.add({ id: 'g', maxTokens: 3, grammar });
      const request = driver.request(handle);
      clock.now += 200;
      driver.run();
      expect(driver.ends.get(handle)).toEqual(['error']);
      expect(request.failure).toContain('no such grammar');
      expect(driver.scheduler.stats()).toMatchObject({ grammarTimeouts: 0 });
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('update: ends with the next update, also if its step failed', () => {
    const { driver } = timed({ maxNumSeqs: 1, grammarFailures: 'update' });
    const grammar = new FakeGrammar();
    grammar.ready = () => {
      throw new Error('no such grammar');
    };
    const handle = driver.add({ id: 'g', maxTokens: 3, grammar });
    driver.add({ id: 'runs', maxTokens: 9 });
    driver.schedule();
    expect(driver.ends.get(handle)).toEqual([]);
    driver.failStep();
    expect(driver.ends.get(handle)).toEqual(['error']);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('is ended while everything is paused, too', () => {
    const { driver, clock } = timed({ deadlines: { grammar: 100 } });
    const handle = driver.add({ id: 'g', grammar: new FakeGrammar({ notReady: 1000 }) });
    driver.scheduler.pause('all');
    clock.now = 1100;
    driver.update(driver.schedule());
    expect(driver.ends.get(handle)).toEqual(['error']);
  });
});

describe('many waits', () => {
  it('end in the order of their deadlines, whoever left before', () => {
    const { driver, clock } = timed({
      deadlines: { streamingInput: 500, grammar: 130 },
      maxNumSeqs: 40,
      numBlocks: 200,
    });
    const handles = new Map<string, number>();
    for (let i = 0; i < 12; i++) {
      clock.now = 1000 + 10 * i;
      handles.set(`s${i}`, addIdle(driver, `s${i}`));
      if (i % 3 === 0) driver.add({ id: `g${i}`, grammar: new FakeGrammar({ notReady: 1e6 }) });
    }
    driver.scheduler.verify();
    driver.addChunk(handles.get('s4') as number, { maxTokens: 100 });
    driver.abort(['s0', 's7', 'g3']);
    driver.scheduler.pause('new');
    const ended: string[] = [];
    for (; clock.now < 1700; clock.now++) {
      ended.push(...driver.schedule().finished.map((id) => `${id} ${clock.now}`));
      driver.scheduler.verify();
      expect(driver.scheduler.nextDeadline).toBeGreaterThan(clock.now);
    }
    const due = [
      'g0 1130',
      'g6 1190',
      'g9 1220',
      's1 1510',
      's2 1520',
      's3 1530',
      's5 1550',
      's6 1560',
      's8 1580',
    ];
    expect(ended.filter((row) => !/^(s0|s7|g3) /.test(row))).toEqual([
      ...due,
      's9 1590',
      's10 1600',
      's11 1610',
    ]);
    expect(driver.scheduler.nextDeadline).toBe(Infinity);
  });

  it('without deadlines last for ever', () => {
    const { driver, clock } = timed({ deadlines: false });
    const handle = addIdle(driver);
    driver.add({ id: 'g', grammar: new FakeGrammar({ notReady: 1e9 }) });
    expect(driver.scheduler.nextDeadline).toBe(Infinity);
    clock.now = 1e12;
    expect(driver.schedule().finished).toEqual([]);
    expect(driver.request(handle).isFinished).toBe(false);
  });
});
