// Foreign events: counted and skipped; queues that a foreign hand changed are repaired.
import { describe, expect, it } from 'vitest';
import { Core } from '../../../src/core/core.js';
import { finishAll } from '../../../src/scheduler/life/finish.js';
import { coreConfig } from '../../../src/scheduler/options/core-config.js';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { resolveOptions } from '../../../src/scheduler/options/resolve-options.js';
import { Request } from '../../../src/scheduler/request/request.js';
import { FinishCode } from '../../../src/scheduler/request/status.js';
import { purgeUntracked, realignStatuses, sweepRunning } from '../../../src/scheduler/state/guards.js';
import { SchedulerState } from '../../../src/scheduler/state/scheduler-state.js';
import { codeOf, Driver, leftovers, prompt } from '../../support/driver.js';
import { seizeQueues } from '../../support/hostile-queues.js';

const STRICT = { strict: true };

function anomalies(driver: Driver): Record<string, number> {
  return driver.scheduler.stats().anomalies;
}

describe('get and skip', () => {
  it('an abort of an unknown id is skipped and counted, in strict mode too', () => {
    for (const options of [{}, STRICT]) {
      const driver = new Driver(options);
      expect(driver.abort('nobody')).toEqual([]);
      expect(anomalies(driver)).toEqual({ 'abort-unknown': 1 });
    }
  });

  it('an abort by the handle of a finished request that still drains is skipped and counted, in strict mode too', () => {
    for (const options of [{}, STRICT]) {
      const driver = new Driver(options);
      const handle = driver.add({ id: 'a' });
      driver.scheduler.hold(handle, 'store', 'job');
      driver.abort('a');
      expect(driver.abort([handle, handle])).toEqual([]);
      expect(anomalies(driver)).toEqual({ 'abort-finished': 2 });
      driver.scheduler.complete(handle, 'store', 'job');
      expect(driver.ends.get(handle)).toEqual(['abort']);
    }
  });

  it('the handle of a former incarnation touches nothing of the request that has its slot now', () => {
    const driver = new Driver();
    const old = driver.add({ id: 'a' });
    driver.abort('a');
    const fresh = driver.add({ id: 'a', maxTokens: 2 });
    expect(fresh % 2 ** 21).toBe(old % 2 ** 21);
    expect(fresh).not.toBe(old);
    expect(driver.abort(old)).toEqual([]);
    expect(driver.scheduler.hold(old, 'load', 'x')).toBe(false);
    expect(driver.scheduler.complete(old, 'load', 'x')).toBe(false);
    expect(driver.scheduler.getByHandle(old)).toBeUndefined();
    expect(anomalies(driver)).toEqual({ 'stale-handle': 3 });
    driver.run();
    expect(driver.ends.get(fresh)).toEqual(['length']);
  });

  it('strict mode throws what a client says by handle only if that was never given out', () => {
    const driver = new Driver(STRICT);
    const [ended, live] = [driver.add({ id: 'a' }), driver.add({ id: 'b' })];
    driver.abort('a');
    const [slot, other] = [ended % 2 ** 21, live % 2 ** 21];
    const { scheduler } = driver;
    for (let round = 0; round < 2; round++) {
      expect(driver.abort(ended)).toEqual([]);
      expect(scheduler.addChunk(ended, { prompt: prompt(3) })).toBe('skipped');
      expect(scheduler.endSession(ended)).toBe('skipped');
      // Then its slot is another's.
      if (round === 0) expect(driver.add({ id: 'c' }) % 2 ** 21).toBe(slot);
    }
    // No generation, a generation that is to come in an old slot and in a running one, a slot that
    // was never used, and nonsense.
    const never = [slot, slot + 3 * 2 ** 21, other + 2 * 2 ** 21, 2 ** 21 + 99, Number.MAX_SAFE_INTEGER];
    for (const handle of never) {
      expect(
        codeOf(() => driver.abort(handle)),
        `${handle}`,
      ).toBe('ERR_BLOCKSTEP_ANOMALY');
      expect(codeOf(() => scheduler.addChunk(handle, { prompt: prompt(3) }))).toBe('ERR_BLOCKSTEP_ANOMALY');
      expect(codeOf(() => scheduler.endSession(handle))).toBe('ERR_BLOCKSTEP_ANOMALY');
    }
    expect(anomalies(driver)).toEqual({ 'stale-handle': 6 + 3 * never.length });
    driver.run();
    expect(leftovers(scheduler)).toEqual([]);
  });

  it('strict mode carries out a list of aborts as a whole, whatever is in it, and throws then', () => {
    const driver = new Driver(STRICT);
    const handles = ['a', 'b', 'c'].map((id) => driver.add({ id }));
    const never = handles[2] + 2 ** 21;
    expect(codeOf(() => driver.abort(['a', never, 'nobody', handles[1], never]))).toBe(
      'ERR_BLOCKSTEP_ANOMALY',
    );
    expect(driver.scheduler.inspect().waiting).toEqual(['c']);
    expect(anomalies(driver)).toEqual({ 'stale-handle': 2, 'abort-unknown': 1 });
    // A value that is no key at all is refused before anything is done.
    expect(codeOf(() => driver.abort(['c', -1]))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(driver.scheduler.inspect().waiting).toEqual(['c']);
  });

  it('strict mode throws a stale handle that a transfer names, and the scheduler works on', () => {
    const driver = new Driver(STRICT);
    const old = driver.add({ id: 'a' });
    driver.abort('a');
    expect(codeOf(() => driver.scheduler.complete(old, 'load', 'x'))).toBe('ERR_BLOCKSTEP_ANOMALY');
    const next = driver.add({ id: 'b', maxTokens: 1 });
    driver.run();
    expect(driver.ends.get(next)).toEqual(['length']);
  });

  it('a completion that nobody registered, and one that comes twice, change nothing and are told apart', () => {
    const driver = new Driver();
    const handle = driver.add({ id: 'a' });
    const { scheduler } = driver;
    expect(scheduler.complete(handle, 'store', 'x')).toBe(false);
    expect(scheduler.hold(handle, 'store', 'x')).toBe(true);
    expect(scheduler.hold(handle, 'store', 'x')).toBe(false);
    expect(scheduler.complete(handle, 'store', 'other')).toBe(false);
    expect(scheduler.complete(handle, 'load', 'x')).toBe(false);
    expect(scheduler.complete(handle, 'store', 'x')).toBe(true);
    expect(scheduler.complete(handle, 'store', 'x')).toBe(false);
    const expected = { 'unknown-completion': 3, 'duplicate-hold': 1, 'duplicate-completion': 1 };
    expect(anomalies(driver)).toEqual(expected);
  });

  it('strict mode throws duplicate holds and completions', () => {
    const driver = new Driver(STRICT);
    const handle = driver.add({ id: 'a' });
    const { scheduler } = driver;
    scheduler.hold(handle, 'store', 'x');
    expect(codeOf(() => scheduler.hold(handle, 'store', 'x'))).toBe('ERR_BLOCKSTEP_ANOMALY');
    expect(scheduler.complete(handle, 'store', 'x')).toBe(true);
    expect(codeOf(() => scheduler.complete(handle, 'store', 'x'))).toBe('ERR_BLOCKSTEP_ANOMALY');
    scheduler.verify();
  });

  it('a request named twice in one finish ends once', () => {
    const s = state();
    const request = track(s, 'a');
    expect(finishAll(s, [request, request], FinishCode.error)).toEqual(['a']);
    expect(finishAll(s, [request], FinishCode.abort)).toEqual([]);
    expect([s.finishedIds, request.status, request.finishReason]).toEqual([['a'], 'FINISHED', 'error']);
    s.core.dispose();
  });

  it('an output for a request that was aborted while the step ran is dropped and counted', () => {
    const driver = new Driver();
    const handle = driver.add({ id: 'a', maxTokens: 1 });
    driver.schedule();
    driver.abort('a');
    driver.update();
    expect(driver.last).toEqual([]);
    expect(driver.ends.get(handle)).toEqual(['abort']);
    expect(driver.scheduler.stats()).toMatchObject({ droppedOutputs: 1, generationTokens: 0 });
    expect(driver.scheduler.stats().finished).toMatchObject({ abort: 1, length: 0 });
  });
});

describe('realign', () => {
  const run = { prompt: prompt(4), maxTokens: 50 };

  it('a stale WAITING in running is repaired before the abort, which is counted', () => {
    const driver = new Driver();
    const handle = driver.add({ id: 'a', ...run });
    driver.step();
    driver.request(handle).status = 'WAITING';
    expect(driver.abort('a')).toEqual(['a']);
    expect(anomalies(driver)).toEqual({ 'realigned-status': 1 });
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a stale RUNNING in waiting is repaired to WAITING, or to PREEMPTED if it ever was', () => {
    const s = state();
    const [fresh, preempted] = [track(s, 'a'), track(s, 'b')];
    preempted.numPreemptions = 1;
    for (const request of [fresh, preempted]) request.status = 'RUNNING';
    expect(realignStatuses(s, [fresh, preempted])).toBe(2);
    expect([fresh.status, preempted.status]).toEqual(['WAITING', 'PREEMPTED']);
    s.core.dispose();
  });

  it('a session waits for input exactly where such sessions stand', () => {
    const s = state();
    const [idle, waiting, aligned] = ['a', 'b', 'c'].map((id) => track(s, id));
    for (const request of [idle, aligned]) {
      s.queues.remove(request);
      s.queues.park(request);
    }
    aligned.status = 'WAITING_FOR_STREAMING_REQ';
    idle.status = 'RUNNING';
    waiting.status = 'WAITING_FOR_STREAMING_REQ';
    expect(realignStatuses(s, [idle, waiting, aligned])).toBe(2);
    const statuses = [idle, waiting, aligned].map(({ status }) => status);
    expect(statuses).toEqual(['WAITING_FOR_STREAMING_REQ', 'WAITING', 'WAITING_FOR_STREAMING_REQ']);
    s.core.dispose();
  });

  it('a finished request restored among the idle sessions is dropped when somebody needs blocks', () => {
    const driver = new Driver({ numBlocks: 5 });
    const queues = seizeQueues(driver);
    const dead = driver.request(driver.add({ id: 'dead', resumable: true }));
    driver.step();
    driver.abort('dead');
    queues.park(dead);
    dead.numComputedTokens = 8;
    const big = driver.add({ id: 'big', prompt: prompt(9), maxTokens: 4 });
    const other = driver.add({ id: 'other', prompt: prompt(7, 1), maxTokens: 2 });
    driver.run();
    expect(driver.ends.get(big)).toEqual(['length']);
    expect(driver.ends.get(other)).toEqual(['length']);
    expect(anomalies(driver)).toEqual({ 'purged-untracked': 1 });
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('and at once in strict mode', () => {
    const driver = new Driver(STRICT);
    const queues = seizeQueues(driver);
    const dead = driver.request(driver.add({ id: 'dead', resumable: true }));
    driver.abort('dead');
    queues.park(dead);
    expect(codeOf(() => driver.schedule())).toBe('ERR_BLOCKSTEP_ANOMALY');
    expect(driver.scheduler.numSkipped).toBe(0);
  });

  it('what is aligned, blocked in its queue, or finished is left alone', () => {
    const s = state();
    const [waiting, blocked, running, finished] = ['a', 'b', 'c', 'd'].map((id) => track(s, id));
    blocked.status = 'WAITING_FOR_REMOTE_KVS';
    s.queues.remove(running);
    s.queues.pushRunning(running);
    running.status = 'RUNNING';
    finished.finishCode = FinishCode.abort;
    finished.status = 'RUNNING';
    expect(realignStatuses(s, [waiting, blocked, running, finished])).toBe(0);
    const statuses = [waiting, blocked, running, finished].map(({ status }) => status);
    expect(statuses).toEqual(['WAITING', 'WAITING_FOR_REMOTE_KVS', 'RUNNING', 'RUNNING']);
    s.core.dispose();
  });

  it('F46: maxNumSeqs aborts of requests with stale statuses leave the whole capacity', () => {
    const maxNumSeqs = 4;
    const driver = new Driver({ maxNumSeqs });
    for (const status of ['WAITING', 'PREEMPTED', 'WAITING_FOR_STREAMING_REQ', 'WAITING'] as const) {
      const handle = driver.add({ id: 'a', maxTokens: 50 });
      driver.step();
      driver.request(handle).status = status;
      driver.abort('a');
    }
    expect(driver.scheduler.numRunning).toBe(0);
    for (let i = 0; i < maxNumSeqs; i++) driver.add({ id: `n${i}`, prompt: prompt(4, i), maxTokens: 2 });
    expect(driver.schedule().numRequests).toBe(maxNumSeqs);
    driver.run();
    expect(anomalies(driver)).toEqual({ 'realigned-status': maxNumSeqs });
    expect(leftovers(driver.scheduler)).toEqual([]);
  });
});

describe('sweep', () => {
  it('finished requests that an adapter put back into running are dropped by the next abort, order kept', () => {
    const driver = new Driver({ maxNumSeqs: 5 });
    const queues = seizeQueues(driver);
    const handles = ['a', 'b', 'c', 'd'].map((id, i) =>
      driver.add({ id, prompt: prompt(4, i), maxTokens: 50 }),
    );
    driver.step();
    const zombie = driver.request(handles[1]);
    driver.abort('b');
    queues.running.splice(1, 0, zombie);
    zombie.container = 'running';
    driver.abort('c');
    expect(driver.scheduler.inspect().running).toEqual(['a', 'd']);
    expect(zombie.container).toBe(null);
    expect(anomalies(driver)).toEqual({ 'swept-running': 1 });
    driver.scheduler.verify();
  });

  it('finds nothing, and drops nothing, where all is in order', () => {
    const s = state();
    const live = track(s, 'a');
    s.queues.remove(live);
    s.queues.pushRunning(live);
    expect(sweepRunning(s)).toBe(0);
    expect(s.queues.running).toEqual([live]);
    s.core.dispose();
  });
});

describe('purge', () => {
  it('keeps the live ones of [live, zombie, live, zombie] in order and calls back once for each zombie', () => {
    const s = state();
    const [a, x, b, y] = ['a', 'x', 'b', 'y'].map((id) => track(s, id));
    s.requests.delete('x');
    y.finishCode = FinishCode.stop;
    const parked = [a, x, b, y];
    const purged: string[] = [];
    expect(purgeUntracked(parked, s.requests, ({ id }) => purged.push(id))).toBe(2);
    expect(parked).toEqual([a, b]);
    expect(purged).toEqual(['x', 'y']);
    expect(purgeUntracked(parked, s.requests, () => expect.unreachable())).toBe(0);
    s.core.dispose();
  });

  it('an older incarnation of an id that lives again is a zombie', () => {
    const s = state();
    const old = track(s, 'a');
    const fresh = track(s, 'a');
    const parked = [old, fresh];
    expect(purgeUntracked(parked, s.requests, ({ handle }) => expect(handle).toBe(old.handle))).toBe(1);
    expect(parked).toEqual([fresh]);
    s.core.dispose();
  });

  it('an empty queue is left alone', () => {
    expect(purgeUntracked([], new Map(), () => expect.unreachable())).toBe(0);
  });

  for (const how of ['pushWaiting', 'prependWaiting', 'pushSkipped'] as const) {
    it(`a finished request restored through ${how} is dropped at admission, and the others run`, () => {
      const driver = new Driver();
      const queues = seizeQueues(driver);
      const handle = driver.add({ id: 'dead' });
      const dead = driver.request(handle);
      driver.abort('dead');
      const live = driver.add({ id: 'live', maxTokens: 2 });
      queues[how](dead);
      if (how === 'prependWaiting') dead.container = null;
      const plan = driver.schedule();
      expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(['live']);
      driver.run();
      expect(driver.ends.get(live)).toEqual(['length']);
      expect(driver.ends.get(handle)).toEqual(['abort']);
      expect(anomalies(driver)).toEqual({ 'purged-untracked': 1 });
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('strict mode throws it once, and neither the plan of that step nor the live requests are lost', () => {
    const driver = new Driver(STRICT);
    const queues = seizeQueues(driver);
    const dead = driver.request(driver.add({ id: 'dead' }));
    driver.abort('dead');
    queues.pushWaiting(dead);
    const live = driver.add({ id: 'live', maxTokens: 9 });
    const thrown: unknown[] = [];
    for (let i = 0; i < 30 && driver.scheduler.hasWork(); i++) {
      try {
        driver.step();
      } catch (error) {
        thrown.push((error as { code?: string }).code);
      }
    }
    expect(thrown).toEqual(['ERR_BLOCKSTEP_ANOMALY']);
    expect(driver.ends.get(live)).toEqual(['length']);
  });
});

/** The state below a scheduler, for guards called by themselves. */
function state(options: Partial<SchedulerOptions> = {}): SchedulerState {
  const config = resolveOptions({ numBlocks: 9, blockSize: 4, maxNumSeqs: 8, ...options });
  return new SchedulerState(config, new Core(coreConfig(config)), null);
}

function track(s: SchedulerState, id: string): Request {
  const handle = s.core.native.add(prompt(4), '', '');
  const limits = { maxModelLen: 64, fullAt: 64, now: 0 };
  const request = new Request(
    { id, prompt: prompt(4), maxTokens: 1 },
    handle,
    handle % 2 ** 21,
    limits,
    null,
  );
  s.track(request);
  s.queues.pushWaiting(request);
  return request;
}
