// A request ends once, from every state; callbacks cannot call back.
import { afterEach, describe, expect, it } from 'vitest';
import { channels } from '../../../src/base/channels.js';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';

/** Brings a driver's request `x` into a state, and names what it is then. */
interface Place {
  name: string;
  depth: 1 | 2 | 3;
  status: string;
  bring(driver: Driver): void;
}

function steps(count: number) {
  return (driver: Driver) => {
    for (let i = 0; i < count; i++) driver.step();
  };
}

/** Schedules until `x` is preempted, since `first` stands before it and needs its blocks. */
function untilPreempted(driver: Driver): void {
  while (driver.scheduler.get('x')?.status !== 'PREEMPTED') {
    if (driver.inFlight.length === driver.scheduler.config.pipelineDepth) driver.update();
    driver.schedule();
  }
}

const PLACES: Place[] = [
  { name: 'waiting', depth: 1, status: 'WAITING', bring: () => {} },
  { name: 'running in prefill, between its chunks', depth: 1, status: 'RUNNING', bring: steps(1) },
  { name: 'decoding', depth: 1, status: 'RUNNING', bring: steps(5) },
  {
    name: 'running, its step in flight',
    depth: 1,
    status: 'RUNNING',
    bring: (driver) => void driver.schedule(),
  },
  {
    name: 'running, two steps in flight',
    depth: 2,
    status: 'RUNNING',
    bring: (driver) => {
      steps(4)(driver);
      driver.schedule();
    },
  },
  {
    name: 'running, three steps in flight',
    depth: 3,
    status: 'RUNNING',
    bring: (driver) => {
      steps(4)(driver);
      driver.schedule();
    },
  },
  { name: 'preempted', depth: 1, status: 'PREEMPTED', bring: untilPreempted },
  { name: 'preempted, its output in flight', depth: 2, status: 'PREEMPTED', bring: untilPreempted },
  { name: 'preempted, two outputs in flight', depth: 3, status: 'PREEMPTED', bring: untilPreempted },
];

function inPlace({ depth, bring, status, name }: Place): { driver: Driver; x: number; first: number } {
  const squeezed = name.startsWith('preempted');
  const driver = new Driver({
    pipelineDepth: depth,
    longPrefillTokenThreshold: 6,
    numBlocks: squeezed ? 7 : 33,
  });
  const first = driver.add({ id: 'first', prompt: prompt(squeezed ? 7 : 3, 1), maxTokens: 12 });
  const x = driver.add({ id: 'x', prompt: prompt(squeezed ? 9 : 14), maxTokens: 30 });
  bring(driver);
  expect(driver.request(x).status).toBe(status);
  return { driver, x, first };
}

describe('a request ends once and for all', () => {
  for (const place of PLACES) {
    it(`aborted while ${place.name}: one report, one finished id, nothing left, the others unharmed`, () => {
      const { driver, x, first } = inPlace(place);
      const before = driver.text(x).length;
      expect(driver.abort('x')).toEqual(['x']);
      driver.scheduler.verify();
      expect(driver.scheduler.get('x')).toBeUndefined();
      expect(driver.abort(['x', x])).toEqual([]);
      driver.run();
      expect(driver.ends.get(x)).toEqual(['abort']);
      expect(driver.text(x)).toHaveLength(before);
      expect(driver.timesFinished('x')).toBe(1);
      expect(driver.text(first)).toEqual(driver.model.text(first, 12));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });

    it(`its id is free at once when aborted while ${place.name}, and late frames do not touch the new one`, () => {
      const { driver, x } = inPlace(place);
      driver.abort(x);
      const fresh = driver.add({ id: 'x', prompt: prompt(5, 3), maxTokens: 4 });
      expect(fresh).not.toBe(x);
      driver.run();
      expect(driver.ends.get(x)).toEqual(['abort']);
      expect(driver.ends.get(fresh)).toEqual(['length']);
      expect(driver.text(fresh)).toEqual(driver.model.text(fresh, 4));
      expect(driver.timesFinished('x')).toBe(2);
    });
  }

  it('an id is refused while its request is unfinished', () => {
    const driver = new Driver();
    driver.add({ id: 'a' });
    expect(codeOf(() => driver.add({ id: 'a' }))).toBe('ERR_BLOCKSTEP_DUPLICATE_ID');
    driver.step();
    expect(codeOf(() => driver.add({ id: 'a' }))).toBe('ERR_BLOCKSTEP_DUPLICATE_ID');
  });

  it('the first reason wins: aborted between execution and update, it neither stops nor fails', () => {
    for (const fails of [() => true, undefined]) {
      const driver = new Driver();
      const handle = driver.add({ id: 'a', maxTokens: 1 });
      driver.schedule(fails);
      driver.abort('a');
      driver.update();
      expect(driver.ends.get(handle)).toEqual(['abort']);
      expect(driver.scheduler.stats().finished).toEqual({ stop: 0, length: 0, abort: 1, error: 0 });
    }
  });

  it('the first reason wins: once it stopped, an abort in the same step is too late', () => {
    const driver = new Driver({ pipelineDepth: 2 });
    const handle = driver.add({ id: 'a', maxTokens: 2, eosTokenId: 5 });
    driver.run();
    expect(driver.abort(handle)).toEqual([]);
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(driver.scheduler.stats().anomalies).toEqual({ 'stale-handle': 1 });
  });

  for (const pipelineDepth of [2, 3] as const) {
    it(`depth ${pipelineDepth}: a request may stop while it is preempted, on an output that was in flight`, () => {
      const driver = new Driver({ pipelineDepth, numBlocks: 7 });
      const probe = driver.add({ id: 'probe', prompt: prompt(9), maxTokens: 30 });
      const text = driver.model.text(probe, 30);
      driver.abort('probe');
      const first = driver.add({ id: 'first', prompt: prompt(7, 1), maxTokens: 12 });
      const x = driver.add({ id: 'x', prompt: prompt(9), maxTokens: 30, stopTokenIds: text.slice(3, 4) });
      untilPreempted(driver);
      const request = driver.request(x);
      expect(driver.text(x).length + request.numOutputPlaceholders).toBe(4);
      while (driver.inFlight.length > 0) driver.update();
      expect(driver.ends.get(x)).toEqual(['stop']);
      expect(request.numPreemptions).toBe(1);
      expect(driver.text(x)).toEqual(text.slice(0, 4));
      expect(driver.scheduler.inspect().waiting).toEqual([]);
      driver.run();
      expect(driver.text(first)).toEqual(driver.model.text(first, 12));
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('ids in plan.finished come with the next plan, empty or not, and never again', () => {
    const driver = new Driver();
    driver.add({ id: 'a', maxTokens: 1 });
    driver.add({ id: 'b', prompt: prompt(5, 1), maxTokens: 1 });
    driver.step();
    expect(driver.scheduler.hasWork()).toBe(true);
    expect(driver.schedule().finished).toEqual(['a', 'b']);
    expect(driver.schedule().finished).toEqual([]);
    expect(driver.scheduler.hasWork()).toBe(false);
  });

  it('an id that was used twice stands in plan.finished once, both handles in plan.finishedHandles', () => {
    const driver = new Driver();
    const handles = [1, 2].map(() => {
      const handle = driver.add({ id: 'a' });
      driver.abort('a');
      return handle;
    });
    driver.add({ id: 'a' });
    const { finished, finishedHandles, requests } = driver.schedule();
    expect([finished, finishedHandles, requests[0].id]).toEqual([['a'], handles, 'a']);
  });
});

describe('inside a callback', () => {
  const unsubscribe: (() => void)[] = [];
  afterEach(() => {
    for (const off of unsubscribe.splice(0)) off();
  });

  function on(name: keyof typeof channels, listener: (message: { id: string }) => void): void {
    const listen = (message: unknown) => listener(message as { id: string });
    channels[name].subscribe(listen);
    unsubscribe.push(() => channels[name].unsubscribe(listen));
  }

  it('an abort is queued and carried out before the next step; the running step is not disturbed', () => {
    const driver = new Driver();
    on('admit', ({ id }) => {
      if (id === 'b') expect(driver.scheduler.abort('a')).toEqual([]);
    });
    const a = driver.add({ id: 'a', prompt: prompt(4), maxTokens: 1 });
    const b = driver.add({ id: 'b', prompt: prompt(4, 1), maxTokens: 1 });
    expect(driver.schedule().numRequests).toBe(2);
    driver.update();
    expect(driver.last).toEqual(['b:1:length']);
    expect(driver.text(a)).toEqual([]);
    expect(driver.ends.get(b)).toEqual(['length']);
    expect(driver.scheduler.stats().finished.abort).toBe(1);
    driver.run();
    expect(driver.timesFinished('a')).toBe(1);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('an abort that is only queued counts as work until it is carried out, while all is paused too', () => {
    const driver = new Driver();
    on('add', ({ id }) => {
      if (id === 'a') driver.scheduler.abort('b');
    });
    driver.scheduler.pause('all');
    driver.add({ id: 'b', maxTokens: 9 });
    expect(driver.scheduler.hasWork()).toBe(false);
    driver.add({ id: 'a', maxTokens: 1 });
    expect(driver.scheduler.hasWork()).toBe(true);
    driver.schedule();
    expect(driver.finished).toEqual(['b']);
    expect(driver.scheduler.hasWork()).toBe(false);
  });

  it('an abort from the end of a request that a queued abort ended is carried out too', () => {
    const driver = new Driver();
    on('add', ({ id }) => {
      if (id === 'c') driver.scheduler.abort('a');
    });
    on('finish', ({ id }) => {
      if (id === 'a') driver.scheduler.abort('b');
    });
    for (const id of ['a', 'b', 'c']) driver.add({ id, maxTokens: 3 });
    driver.run();
    const { abort, length } = driver.scheduler.stats().finished;
    expect([abort, length]).toEqual([2, 1]);
  });

  it('every other call is refused, and the call that was running completes', () => {
    const driver = new Driver();
    const { scheduler } = driver;
    const codes: string[] = [];
    on('step', () => {
      const calls = [
        () => scheduler.add({ id: 'c', prompt: prompt(1), maxTokens: 1 }),
        () => scheduler.abortAll(),
        () => scheduler.schedule(),
        () => scheduler.resetPrefixCache(),
        () => scheduler.pause('all'),
        () => scheduler.verify(),
        () => scheduler.hold(1, 'load', 'x'),
        () => scheduler.dispose(),
      ];
      for (const call of calls) codes.push(codeOf(call));
    });
    const handle = driver.add({ id: 'a', maxTokens: 1 });
    driver.step();
    expect(codes).toEqual(new Array(8).fill('ERR_BLOCKSTEP_REENTRANT'));
    expect(driver.ends.get(handle)).toEqual(['length']);
  });
});
