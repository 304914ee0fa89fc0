// F28, F48, F56: adapters that throw, lose, double and misplace requests.
import { describe, expect, it } from 'vitest';
import type { BorrowQueues } from '../../src/borrow.js';
import type { Finished, Match, SchedulerConnector } from '../../src/connector.js';
import { EntryKind, type Request, type SchedulerOptions } from '../../src/index.js';
import type { RequestStatus } from '../../src/scheduler/request/status.js';
import { ScriptedBorrower } from '../scheduler/lend/scripted-borrower.js';
import { codeOf, Driver, leftovers, prompt } from '../support/driver.js';

function bench(options: Partial<SchedulerOptions> = {}) {
  const borrower = new ScriptedBorrower();
  const driver = new Driver({ borrower, ...options });
  return { borrower, driver, add: (id: string, more: object = {}) => add(driver, id, more) };
}

/** Answers the number of tokens that the test sets; in the beginning: later. */
class LateConnector implements SchedulerConnector {
  readonly protection = 'own';
  answer: Match = { numTokens: null, async: false };

  getNumNewMatchedTokens(): Match {
    return this.answer;
  }

  updateStateAfterAlloc(): void {}

  buildMetadata(): null {
    return null;
  }

  requestFinished(): Finished {
    return { delayFree: false };
  }
}

let prompts = 0;

function add(driver: Driver, id: string, more: object): Request {
  return driver.request(driver.add({ id, prompt: prompt(4, prompts++ % 9), maxTokens: 12, ...more }));
}

function anomalies(driver: Driver): Record<string, number> {
  return driver.scheduler.stats().anomalies;
}

/** Expects that all requests end with their whole texts, and that nothing is left. */
function expectAllEnd(driver: Driver, requests: readonly Request[]): void {
  driver.run();
  for (const { handle } of requests) {
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 12));
  }
  expect(leftovers(driver.scheduler)).toEqual([]);
}

// Pinned by: AskedBorrower (ask-borrower.ts); `#keepBack` (loan.ts).
describe('F28 a borrowing adapter throws', () => {
  const methods = [
    'processPendingChunks',
    'restoreQueues',
    'postprocess',
    'finishRequests',
    'cleanupReceiver',
  ];

  for (const method of methods) {
    for (const how of ['throws', 'answers a promise']) {
      it(`${method} ${how}: counted, and every request goes on`, () => {
        const { borrower, driver, add } = bench();
        const fail = (): unknown => {
          if (how === 'throws') throw new Error('no');
          return Promise.reject(new Error('later'));
        };
        // The methods are looked up once, so the adapter fails from its first call on.
        const broken = Object.assign(Object.create(borrower) as ScriptedBorrower, { [method]: fail });
        const other = new Driver({ borrower: broken });
        const handle = other.add({ id: 'x', maxTokens: 12 });
        const gone = other.add({ id: 'gone', prompt: prompt(4, 1), maxTokens: 40 });
        other.step();
        other.abort('gone');
        other.run();
        expect([other.ends.get(handle), other.ends.get(gone)]).toEqual([['length'], ['abort']]);
        expect(anomalies(other)['borrower-failed']).toBeGreaterThan(0);
        expect(leftovers(other.scheduler)).toEqual([]);
        expectAllEnd(driver, [add('y')]);
      });
    }
  }

  it('what waits for a chunk stays held up in a step in which processing threw', () => {
    const { borrower, driver, add } = bench();
    const [a, b] = ['a', 'b'].map((id) => add(id)) as [Request, Request];
    driver.step();
    borrower.held.add('a');
    const step = (): string[] => {
      const plan = driver.schedule();
      const ids = plan.requests.slice(0, plan.numRequests).map(({ id }) => id);
      driver.update(plan);
      driver.scheduler.verify();
      return ids;
    };
    expect(step()).toEqual(['b']);
    const { held } = borrower;
    Object.defineProperty(borrower, 'held', {
      configurable: true,
      get: () => {
        throw new Error('no');
      },
    });
    expect(step()).toEqual(['b']);
    expect(a.container).toBe('running');
    expect(anomalies(driver)).toEqual({ 'borrower-failed': 1 });
    Object.defineProperty(borrower, 'held', { value: held });
    held.clear();
    expectAllEnd(driver, [a, b]);
  });

  it('parked is a getter that throws, or answers nonsense', () => {
    for (const nonsense of [null, 1, [1], new Error('no')]) {
      const borrower = new ScriptedBorrower();
      let reads = 0;
      Object.defineProperty(borrower, 'parked', {
        get: () => {
          if (reads++ === 0) return [];
          if (nonsense instanceof Error) throw nonsense;
          return nonsense;
        },
      });
      const driver = new Driver({ borrower });
      expectAllEnd(driver, [add(driver, 'a', {})]);
      expect(anomalies(driver)['borrower-failed']).toBeGreaterThan(0);
    }
  });

  it('strict mode throws it when the call ends, with everything carried out', () => {
    const { borrower, driver, add } = bench({ strict: true });
    const a = add('a');
    borrower.onRestore = () => {
      throw new Error('no');
    };
    expect(codeOf(() => driver.schedule())).toBe('ERR_BLOCKSTEP_ANOMALY');
    expect(a.container).toBe('running');
    driver.scheduler.verify();
  });
});

// Pinned by: `giveBack` and `putBack` (loan.ts).
describe('F48 a borrowing adapter loses, doubles or misplaces requests', () => {
  /**
   * The actions of an adapter with `a` at the end of processing or restoring, and the anomaly that
   * each counts as.
   */
  const WRONGS: Readonly<Record<string, [(b: ScriptedBorrower, a: () => Request) => void, string]>> = {
    'never puts it back': [
      (b, a) => {
        b.onProcess = ({ waiting, running }) => void (running.has(a()) ? running : waiting).remove(a());
      },
      'lost-request',
    ],
    'puts it back twice': [
      (b, a) => {
        b.onRestore = ({ waiting, running }) => void [waiting.pushBack(a()), running.pushFront(a())];
      },
      'misplaced-request',
    ],
    'puts it into the other queue': [
      (b, a) => {
        b.onProcess = ({ waiting, running }) => {
          if (running.has(a())) [running.remove(a()), waiting.pushFront(a())];
          else [waiting.remove(a()), running.pushFront(a())];
        };
      },
      'misplaced-request',
    ],
    'takes it out of the other queue': [
      (b, a) => {
        b.onProcess = ({ waiting, running }) => void (running.has(a()) ? waiting : running).remove(a());
      },
      'misplaced-request',
    ],
    'takes it out while it restores': [
      (b, a) => {
        b.onRestore = ({ waiting, running }) => void [waiting.remove(a()), running.remove(a())];
      },
      'misplaced-request',
    ],
    'puts back a stranger': [
      (b) => {
        b.onRestore = ({ running }) => running.pushBack({ id: 'a', isFinished: false } as Request);
      },
      'purged-untracked',
    ],
    'puts back nothing at all': [
      (b) => {
        b.onRestore = ({ waiting }) => waiting.pushBack(undefined as never);
      },
      'purged-untracked',
    ],
    'leaves it with a status of another queue': [
      (b, a) => {
        b.onProcess = () =>
          void Object.assign(a(), { status: a().container === 'running' ? 'WAITING' : 'RUNNING' });
      },
      'realigned-status',
    ],
    'leaves it as if it waited for a grammar': [
      (b, a) => {
        b.onProcess = () => void Object.assign(a(), { status: 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' });
      },
      'realigned-status',
    ],
    'puts it back as finished': [
      (b, a) => {
        b.onRestore = () => void Object.assign(a(), { status: 'FINISHED' satisfies RequestStatus });
      },
      'realigned-status',
    ],
  };

  for (const [what, [plant, reason]] of Object.entries(WRONGS)) {
    for (const where of ['waiting', 'running'] as const) {
      it(`${what}, from ${where}: counted; it goes on, and so do the others`, () => {
        const { borrower, driver, add } = bench({ maxNumSeqs: 2 });
        const others = [add('b')];
        if (where === 'waiting') others.push(add('c'));
        const a = add('a');
        driver.step();
        expect(a.container).toBe(where);
        plant(borrower, () => a);
        for (let i = 0; i < 3; i++) {
          driver.step();
          driver.scheduler.verify();
          expect(a.container).toBe(where);
        }
        expect(anomalies(driver)[reason]).toBeGreaterThan(0);
        expect(Object.keys(anomalies(driver))).toEqual([reason]);
        borrower.onProcess = borrower.onRestore = () => {};
        expectAllEnd(driver, [a, ...others]);
      });
    }
  }

  const STAMPS: readonly RequestStatus[] = [
    'WAITING_FOR_CHUNK',
    'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR',
    'WAITING_FOR_REMOTE_KVS',
    'PREEMPTED',
    'RUNNING',
  ];
  it.each(STAMPS)(
    'leaves a new request in line as %s: it is admitted in that step, as a new one',
    (status) => {
      const { borrower, driver, add } = bench();
      const a = add('a');
      borrower.onProcess = () => {
        a.status = status;
        borrower.onProcess = () => {};
      };
      const plan = driver.schedule();
      expect([plan.numRequests, plan.kinds[0]]).toEqual([1, EntryKind.new]);
      expect(anomalies(driver)).toEqual({ 'realigned-status': 1 });
      expectAllEnd(driver, [a]);
    },
  );

  it('leaves a new session in line as PREEMPTED: it is admitted as a new one', () => {
    const { borrower, driver, add } = bench();
    const a = add('a', { resumable: true });
    borrower.onProcess = () => void Object.assign(a, { status: 'PREEMPTED' satisfies RequestStatus });
    const plan = driver.schedule();
    expect([plan.numRequests, plan.kinds[0]]).toEqual([1, EntryKind.new]);
    expect(anomalies(driver)).toEqual({ 'realigned-status': 1 });
  });

  it('leaves as finished, when it restores, what the step has passed over: it waits on', () => {
    const { borrower, driver, add } = bench({ maxLoras: 1 });
    const [a, b] = [add('a', { adapter: 'x' }), add('b', { adapter: 'y' })];
    borrower.onRestore = () => {
      b.status = 'FINISHED';
      borrower.onRestore = () => {};
    };
    driver.step();
    expect([b.container, b.status]).toEqual(['skipped', 'WAITING']);
    expect(anomalies(driver)).toEqual({ 'realigned-status': 1 });
    expectAllEnd(driver, [a, b]);
  });

  it('knows nothing of a load that begins in the step, of a request that was passed over before', () => {
    const connector = new LateConnector();
    const { driver, add } = bench({ connector });
    const a = add('a', { prompt: prompt(9) });
    driver.step();
    expect([a.container, a.status]).toEqual(['skipped', 'WAITING']);
    connector.answer = { numTokens: 4, async: true };
    driver.step();
    expect(a.status).toBe('WAITING_FOR_REMOTE_KVS');
    driver.scheduler.verify();
    expect(anomalies(driver)).toEqual({});
  });

  it('puts back a request that has ended', () => {
    const { borrower, driver, add } = bench();
    const [a, b] = ['a', 'b'].map((id) => add(id)) as [Request, Request];
    driver.step();
    driver.abort('a');
    borrower.onRestore = ({ running }) => running.pushFront(a);
    driver.step();
    expect([a.container, anomalies(driver)]).toEqual([null, { 'purged-untracked': 1 }]);
    borrower.onRestore = () => {};
    expectAllEnd(driver, [b]);
  });

  it('uses the queues after the call is over', () => {
    const { borrower, driver, add } = bench();
    const a = add('a');
    let kept: BorrowQueues | null = null;
    borrower.onProcess = (queues) => {
      kept = queues;
    };
    driver.step();
    const { running } = kept as unknown as BorrowQueues;
    expect([running.remove(a), running.pushBack(a), a.container]).toEqual([false, false, 'running']);
    expect(anomalies(driver)).toEqual({ 'misplaced-request': 2 });
    expectAllEnd(driver, [a]);
  });
});

// Pinned by: the gate in line.ts, `fits` (adapters.ts).
describe('F56 lent requests and the limits of what runs', () => {
  it('a lent running request keeps its place: no other is admitted for it', () => {
    const { borrower, driver, add } = bench({ maxNumSeqs: 1 });
    const [a, b] = [add('a'), add('b')];
    driver.step();
    borrower.held.add('a');
    for (let i = 0; i < 3; i++) driver.step();
    expect([a.container, b.container]).toEqual(['running', 'waiting']);
    borrower.held.clear();
    expectAllEnd(driver, [a, b]);
  });

  it('nor may an adapter more than maxLoras run, when it comes back', () => {
    const { borrower, driver, add } = bench({ maxLoras: 1 });
    const a = add('a', { adapter: 'x' });
    driver.step();
    borrower.held.add('a');
    const b = add('b', { adapter: 'y' });
    for (let i = 0; i < 3; i++) driver.step();
    expect([b.container, b.waitReason]).toEqual(['skipped', 'adapter']);
    borrower.held.clear();
    expectAllEnd(driver, [a, b]);
  });
});
