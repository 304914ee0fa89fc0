import { describe, expect, it } from 'vitest';
import { Core } from '../../src/core/core.js';
import type { SchedulerOptions } from '../../src/index.js';
import type { AskedBorrower } from '../../src/scheduler/borrow/ask-borrower.js';
import { boundaryGuards } from '../../src/scheduler/lend/boundary-guards.js';
import { Loan } from '../../src/scheduler/lend/loan.js';
import { finishFromOutside } from '../../src/scheduler/life/finish.js';
import { coreConfig } from '../../src/scheduler/options/core-config.js';
import { resolveOptions } from '../../src/scheduler/options/resolve-options.js';
import { Request, type RequestInput } from '../../src/scheduler/request/request.js';
import { FinishCode } from '../../src/scheduler/request/status.js';
import { SchedulerState } from '../../src/scheduler/state/scheduler-state.js';
import { ScriptedBorrower } from '../scheduler/lend/scripted-borrower.js';
import { Driver, leftovers, prompt } from '../support/driver.js';
import { seizeQueues } from '../support/hostile-queues.js';

function bench(options: Partial<SchedulerOptions> = {}) {
  const borrower = new ScriptedBorrower();
  return { borrower, driver: new Driver({ borrower, ...options }) };
}

/** Adds requests, and steps once, so that they run. */
function run(driver: Driver, ids: readonly string[], input: Partial<RequestInput> = {}): Request[] {
  const handles = ids.map((id, i) => driver.add({ id, prompt: prompt(4, i), maxTokens: 40, ...input }));
  const requests = handles.map((handle) => driver.request(handle));
  driver.step();
  return requests;
}

function anomalies(driver: Driver): Record<string, number> {
  return driver.scheduler.stats().anomalies;
}

const WHERE = ['running', 'waiting'] as const;

/** Runs `act` in a state in which nothing but the boundary runs: between taking and giving back, say. */
function between(act: (s: SchedulerState, borrower: ScriptedBorrower, loan: Loan) => void): void {
  const borrower = new ScriptedBorrower();
  const config = resolveOptions({ numBlocks: 9, blockSize: 4, maxNumSeqs: 8, borrower });
  const s = new SchedulerState(config, new Core(coreConfig(config)), null);
  act(s, borrower, new Loan(s, s.borrower as AskedBorrower));
  s.core.dispose();
}

function track(s: SchedulerState, id: string, where: (typeof WHERE)[number]): Request {
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
  if (where === 'waiting') s.queues.pushWaiting(request);
  else {
    s.queues.pushRunning(request);
    request.status = 'RUNNING';
  }
  return request;
}

// Pinned by: purgeAtProcess (boundary-guards.ts), as loan.ts calls it; noteEnded and cleanUp (ask-borrower.ts).
describe('F44 an ended request stays in an array of the adapter', () => {
  for (const where of WHERE) {
    it(`parked from ${where}: [live, zombie, live, zombie] keeps the live ones in order, and each zombie is cleaned up once`, () => {
      const { borrower, driver } = bench();
      const [a, x, b, y] = run(driver, ['a', 'x', 'b', 'y']) as [Request, Request, Request, Request];
      driver.abort('x');
      driver.abort('y');
      const parked = where === 'running' ? borrower.runningParked : borrower.waitingParked;
      parked.push(a, x, b, y);
      const seen: string[][] = [];
      borrower.onProcess = () => seen.push(parked.splice(0).map(({ id }) => id));
      driver.step();
      expect(seen[0]).toEqual(['a', 'b']);
      expect([borrower.timesCleaned('x'), borrower.timesCleaned('y')]).toEqual([1, 1]);
      expect(anomalies(driver)).toEqual({ 'purged-untracked': 2 });
      driver.run();
      expect(leftovers(driver.scheduler)).toEqual([]);
    });
  }

  it('an older request with the same id, and strangers, are zombies; a stranger is cleaned up once too', () => {
    const { borrower, driver } = bench();
    const [old] = run(driver, ['a']) as [Request];
    driver.abort('a');
    const [fresh] = run(driver, ['a'], { maxTokens: 3 }) as [Request];
    const stranger = { id: 'stranger', isFinished: false } as Request;
    borrower.waitingParked.push(old, stranger, null as never, fresh, stranger);
    const seen: unknown[] = [];
    borrower.onProcess = () => seen.push(borrower.waitingParked.splice(0));
    driver.step();
    expect(seen).toEqual([[fresh]]);
    expect([borrower.timesCleaned('stranger'), borrower.timesCleaned('a')]).toEqual([1, 1]);
    expect(anomalies(driver)['purged-untracked']).toBe(4);
  });

  it('empty arrays, and live requests, are left alone', () => {
    const { borrower, driver } = bench();
    const [a] = run(driver, ['a']) as [Request];
    borrower.runningParked.push(a);
    const seen: unknown[] = [];
    borrower.onProcess = () => seen.push([...borrower.waitingParked], borrower.runningParked.splice(0));
    driver.step();
    expect(seen).toEqual([[], [a]]);
    expect(anomalies(driver)).toEqual({});
  });

  it('whatever ends a request, the adapter is told once', () => {
    const { borrower, driver } = bench();
    run(driver, ['stops'], { maxTokens: 1 });
    run(driver, ['aborted']);
    driver.abort(['aborted']);
    expect([borrower.timesCleaned('stops'), borrower.timesCleaned('aborted')]).toEqual([1, 1]);
  });
});

// Pinned by: purgeAtRestore (boundary-guards.ts), as loan.ts calls it; Queues.lent.
describe('F45 a request ends while it is lent', () => {
  for (const where of WHERE) {
    it(`lent from ${where}: it is in no array when the adapter restores, and in no queue afterwards`, () => {
      between((s, borrower, loan) => {
        const [a, x] = ['a', 'x'].map((id) => track(s, id, where)) as [Request, Request];
        for (const id of ['a', 'x']) borrower.held.add(id);
        loan.borrow();
        expect([...s.queues.lent.keys()]).toEqual([a, x]);
        finishFromOutside(s, [x], FinishCode.abort);
        expect(borrower.parked.flat()).toEqual([a, x]);
        loan.giveBack(s.plans[0] as never);
        expect([a.container, x.container]).toEqual([where, null]);
        expect(s.queues.running.length + s.queues.waiting.length).toBe(1);
        expect(s.anomalies.toObject()).toEqual({ 'purged-untracked': 1 });
        s.borrower?.cleanUp();
        expect(borrower.timesCleaned('x')).toBe(1);
      });
    });
  }

  it('it is purged before the adapter restores, so that the adapter never meets it', () => {
    between((s, borrower, loan) => {
      const x = track(s, 'x', 'running');
      borrower.held.add('x');
      loan.borrow();
      finishFromOutside(s, [x], FinishCode.abort);
      borrower.calls.length = 0;
      const met: unknown[] = [];
      Object.defineProperty(borrower.runningParked, 'splice', {
        value: function (this: Request[], ...args: [number, number?]) {
          if (borrower.calls.includes('restore')) met.push(...this);
          return Array.prototype.splice.apply(this, args as never);
        },
      });
      loan.giveBack(s.plans[0] as never);
      expect(met).toEqual([]);
    });
  });

  it('an abort from inside processing or restoring waits for the next step, and finds its request in its queue', () => {
    for (const when of ['onProcess', 'onRestore'] as const) {
      const { borrower, driver } = bench();
      const [a] = run(driver, ['a']) as [Request];
      borrower.held.add('a');
      borrower[when] = () => void driver.scheduler.abort('a');
      const plan = driver.schedule();
      expect([a.isFinished, a.container]).toEqual([false, 'running']);
      borrower[when] = () => {};
      driver.update(plan);
      expect([a.finishReason, a.container]).toEqual(['abort', null]);
      expect(anomalies(driver)).toEqual({});
    }
  });
});

/** Ways in which somebody ends the request `a` from outside. */
const ENDS: Readonly<Record<string, (driver: Driver, request: Request) => void>> = {
  'one id': (driver) => void driver.abort('a'),
  'one handle': (driver, { handle }) => void driver.abort(handle),
  'an iterable': (driver) => void driver.abort(new Set(['nobody', 'a', 'a'])),
  all: (driver) => void driver.abortAll(),
};

// Pinned by: finishFromOutside (finish.ts), and that every end from outside goes there.
describe('F46 an adapter leaves a stale status', () => {
  for (const [how, end] of Object.entries(ENDS)) {
    it(`WAITING in running, ended by ${how}: set right before the base finish, and counted`, () => {
      const { borrower, driver } = bench({ maxNumSeqs: 2 });
      for (let i = 0; i < 2; i++) {
        const [a] = run(driver, ['a']) as [Request];
        const statuses: string[] = [];
        borrower.onFinish = ([request]) => {
          if (request !== undefined) request.status = 'WAITING';
        };
        const { realign } = boundaryGuards;
        boundaryGuards.realign = (s, targets) => {
          const found = realign(s, targets);
          statuses.push(a.status);
          return found;
        };
        end(driver, a);
        boundaryGuards.realign = realign;
        expect(statuses).toEqual(['RUNNING']);
        expect(a.finishReason).toBe('abort');
      }
      expect(anomalies(driver)['realigned-status']).toBe(2);
      expect(driver.scheduler.numRunning).toBe(0);
      run(driver, ['b', 'c']);
      expect(driver.scheduler.numRunning).toBe(2);
    });
  }

  it('RUNNING in waiting is set right too; what is aligned, ended, or unknown is left alone', () => {
    const { borrower, driver } = bench({ maxNumSeqs: 1 });
    const [, w] = run(driver, ['r', 'w']) as [Request, Request];
    borrower.onFinish = (requests) => {
      for (const request of requests) if (request === w) request.status = 'RUNNING';
    };
    driver.abort(['w', 'r', 'nobody']);
    driver.abort('r');
    expect(anomalies(driver)).toEqual({ 'realigned-status': 1, 'abort-unknown': 2 });
  });

  it('what is lent is left as it is, and ends', () => {
    between((s, borrower, loan) => {
      const x = track(s, 'x', 'running');
      borrower.held.add('x');
      loan.borrow();
      boundaryGuards.realign(s, [x]);
      expect(x.status).toBe('WAITING_FOR_CHUNK');
      finishFromOutside(s, [x], FinishCode.abort);
      expect([x.container, s.queues.numLentRunning, s.queues.lent.size]).toEqual([null, 0, 0]);
    });
  });
});

// Pinned by: finishFromOutside (finish.ts).
describe('F47 an ended request stands among the running', () => {
  for (const [how, end] of Object.entries(ENDS)) {
    it(`swept after the end of another one by ${how}, in place, and the others keep their order`, () => {
      const { borrower, driver } = bench();
      const queues = seizeQueues(driver);
      borrower.calls.length = 0;
      const { running } = queues;
      const [first, a, zombie, last] = run(driver, ['first', 'a', 'zombie', 'last']) as Request[];
      driver.abort('zombie');
      running.splice(2, 0, zombie as Request);
      (zombie as Request).container = 'running';
      end(driver, a as Request);
      expect(queues.running).toBe(running);
      expect(running).toEqual(how === 'all' ? [] : [first, last]);
      expect(anomalies(driver)['swept-running']).toBe(1);
      driver.scheduler.verify();
    });
  }

  it('the end of an idle session sweeps too', () => {
    const { driver } = bench();
    const queues = seizeQueues(driver);
    const session = driver.add({ id: 's', resumable: true, maxTokens: 1 });
    driver.step();
    const [zombie] = run(driver, ['zombie']) as [Request];
    driver.abort('zombie');
    queues.running.push(zombie);
    zombie.container = 'running';
    driver.endSession(session);
    expect(anomalies(driver)).toEqual({ 'swept-running': 1 });
    driver.scheduler.verify();
  });

  it('the order is: the adapter is told, statuses are realigned, the requests end, running is swept, the adapter cleans up', () => {
    const { borrower, driver } = bench();
    const [a] = run(driver, ['a']) as [Request];
    const order: string[] = [];
    borrower.onFinish = () => order.push(`told ${a.isFinished}`);
    borrower.onCleanup = () => order.push(`cleanup ${a.isFinished}`);
    const { realign, sweep } = boundaryGuards;
    boundaryGuards.realign = (s, targets) => {
      order.push(`realign ${a.isFinished}`);
      return realign(s, targets);
    };
    boundaryGuards.sweep = (s) => {
      order.push(`sweep ${a.isFinished}`);
      return sweep(s);
    };
    driver.abort('a');
    Object.assign(boundaryGuards, { realign, sweep });
    expect(order).toEqual(['told false', 'realign false', 'sweep true', 'cleanup true']);
  });
});
