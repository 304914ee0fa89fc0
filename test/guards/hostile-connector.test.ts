// Every method of a connector throws, answers nonsense, calls back, aborts.
import { describe, expect, it } from 'vitest';
import type { SchedulerConnector } from '../../src/connector.js';
import { Request } from '../../src/scheduler/request/request.js';
import { ScriptedConnector } from '../support/connector/scripted-connector.js';
import { codeOf, leftovers, makeScheduler, prompt } from '../support/driver.js';
import { NONSENSE, REENTRANT, readAll, THROWN } from './attacks.js';
import { RemoteDriver } from './remote.js';
import { callbacks } from './support.js';

const METHODS = [
  'onNewRequest',
  'getNumNewMatchedTokens',
  'updateStateAfterAlloc',
  'buildMetadata',
  'updateConnectorOutput',
  'requestFinished',
  'cancelSending',
  'resetCache',
  'hasPendingWork',
  'shutdown',
] as const;
type Method = (typeof METHODS)[number];

/** Methods whose answer decides something, and how `v` ends when the method gives no answer. */
const ENDS_WITHOUT: Partial<Record<Method, string>> = {
  onNewRequest: 'error',
  getNumNewMatchedTokens: 'error',
  updateStateAfterAlloc: 'error',
  buildMetadata: 'error',
};

type Attack = (normal: () => unknown, driver: RemoteDriver) => unknown;

/** A driver whose connector follows its scripts, except in one method when that is called about `v` or about no request. */
function attacked(method: Method, attack: Attack, options: { pipelineDepth?: 1 | 2 } = {}) {
  const calls = { count: 0 };
  let driver: RemoteDriver | undefined;
  const connector: Record<string, unknown> = {};
  for (const name of METHODS) {
    connector[name] = (...args: unknown[]) => {
      const inner = driver?.connector as unknown as Record<string, (...args: unknown[]) => unknown>;
      const normal = (): unknown => inner[name](...args);
      const isOthers = args[0] instanceof Request && args[0].id !== 'v';
      if (name !== method || isOthers || driver === undefined) return normal();
      calls.count++;
      return attack(normal, driver);
    };
  }
  const clock = { now: 0 };
  driver = new RemoteDriver(
    { v: { ext: 8, async: true, delayFree: true, delayAbort: true } },
    {
      connector: connector as unknown as SchedulerConnector,
      reclaim: 'on-confirmation',
      deadlines: { reclaim: 100, load: 100 },
      now: () => clock.now,
      ...options,
    },
  );
  return { driver, clock, calls };
}

/** A life in which every method is called: `v` is loaded, runs, is sent and cancelled; `b` runs beside it. */
function live({ driver, clock }: ReturnType<typeof attacked>): { v: number; b: number } {
  const { scheduler } = driver;
  const b = driver.add({ id: 'b', prompt: prompt(9, 1), maxTokens: 12 });
  const v = driver.add({ id: 'v', prompt: prompt(9), maxTokens: 3 });
  const step = (): void => {
    driver.step();
    scheduler.verify();
    scheduler.hasWork();
  };
  step();
  if (scheduler.getByHandle(v)?.load != null) driver.received(v);
  for (let i = 0; scheduler.numUnfinished > 0; i++) {
    if (i === 60) throw new Error(`still at work: ${JSON.stringify(scheduler.stats())}`);
    step();
    if (scheduler.getByHandle(v)?.isFinished) scheduler.abort(v);
  }
  while (driver.inFlight.length > 0) step();
  scheduler.updateTransfers({ finishedSending: [{ handle: v }] });
  // A job that was not reported by now is given up, and then fenced.
  clock.now += 100;
  step();
  scheduler.fenceTransfers();
  step();
  scheduler.resetPrefixCache({ resetConnector: true });
  return { v, b };
}

/** Checks that the fault costs one request at most: its own. */
function expectContained(driver: RemoteDriver, b: number, what: unknown): void {
  expect([what, driver.text(b)]).toEqual([what, driver.model.text(b, 12)]);
  expect([what, driver.ends.get(b), driver.timesFinished('v')]).toEqual([what, ['length'], 1]);
  expect([what, leftovers(driver.scheduler)]).toEqual([what, []]);
  const next = driver.add({ id: 'next', prompt: prompt(9, 5), maxTokens: 2 });
  driver.run(50, () => driver.scheduler.numUnfinished > 0);
  expect([what, driver.text(next)]).toEqual([what, driver.model.text(next, 2)]);
  driver.scheduler.dispose();
}

/** Values of `NONSENSE` that are valid answers of a method after all. */
const GOOD: Partial<Record<Method, readonly string[]>> = {
  resetCache: ['undefined', 'true'],
};

/**
 * No method may wait, so promises and objects like promises are refused even where any other answer
 * is accepted.
 */
const ALWAYS = ['a promise', 'an object that cannot be read'];

const DECIDES: readonly Method[] = ['getNumNewMatchedTokens', 'requestFinished', 'resetCache'];

// Pinned by: the boundary around every call of a connector, `ask` and `tell` in src/scheduler/connector/ask-connector.ts.
describe('a hostile connector costs one request, never the engine', () => {
  for (const method of METHODS) {
    it(`${method} throws whatever can be thrown`, () => {
      for (const [what, attack] of Object.entries(THROWN)) {
        const bench = attacked(method, attack);
        const { driver, calls } = bench;
        const { v, b } = live(bench);
        const { anomalies, finished } = driver.scheduler.stats();
        if (method !== 'shutdown') {
          expect([what, anomalies['connector-failed']]).toEqual([what, calls.count]);
          expect([what, calls.count > 0]).toEqual([what, true]);
        }
        const end = ENDS_WITHOUT[method] ?? 'length';
        expect([what, driver.ends.get(v), finished.error]).toEqual([what, [end], end === 'error' ? 1 : 0]);
        expect([what, callbacks(driver, 'v').length]).toEqual([what, method === 'requestFinished' ? 0 : 1]);
        expectContained(driver, b, what);
      }
    });

    it(`${method} answers nonsense of every kind`, () => {
      for (const [what, answer] of Object.entries(NONSENSE)) {
        const bench = attacked(method, (normal) => {
          normal();
          return answer();
        });
        const { driver, calls } = bench;
        const { v, b } = live(bench);
        const counts = ALWAYS.includes(what) || (DECIDES.includes(method) && !GOOD[method]?.includes(what));
        expect([what, driver.anomalies['connector-failed'] ?? 0]).toEqual([what, counts ? calls.count : 0]);
        const end = counts ? (ENDS_WITHOUT[method] ?? 'length') : 'length';
        expect([what, driver.ends.get(v)]).toEqual([what, [end]]);
        expectContained(driver, b, what);
      }
    });

    // Fails: `Scheduler.hasWork` asks outside of the gate.
    it(`${method} calls back into the scheduler: refused, and it may go on`, () => {
      for (const [what, call] of Object.entries(REENTRANT)) {
        const codes = new Set<unknown>();
        const bench = attacked(method, (normal, driver) => {
          const handle = driver.scheduler.get('v')?.handle ?? 0;
          try {
            codes.add(`it answered ${call(driver, handle)}`);
          } catch (error) {
            codes.add((error as { code?: unknown }).code);
          }
          return normal();
        });
        const { v, b } = live(bench);
        expect([what, bench.driver.ends.get(v)]).toEqual([what, ['length']]);
        expectContained(bench.driver, b, what);
        expect([what, [...codes]]).toEqual([what, ['ERR_BLOCKSTEP_REENTRANT']]);
      }
    });

    it(`${method} lets what it called throw through itself`, () => {
      const bench = attacked(method, (_normal, { scheduler }) => scheduler.schedule());
      const { v, b } = live(bench);
      const end = ENDS_WITHOUT[method] ?? 'length';
      expect(bench.driver.ends.get(v)).toEqual([end]);
      expectContained(bench.driver, b, method);
    });

    it(`${method} reads all that there is to read: nothing is disturbed`, () => {
      for (const pipelineDepth of [1, 2] as const) {
        const attack: Attack = (normal, driver) => {
          readAll(driver);
          return normal();
        };
        const bench = attacked(method, attack, { pipelineDepth });
        const { v, b } = live(bench);
        expect(bench.driver.ends.get(v)).toEqual(['length']);
        expect(bench.driver.text(v)).toEqual(bench.driver.model.text(v, 3));
        expect(bench.driver.anomalies['connector-failed']).toBeUndefined();
        expectContained(bench.driver, b, pipelineDepth);
      }
    });

    it(`${method} aborts its request, and does not wait for the answer`, () => {
      for (const pipelineDepth of [1, 2] as const) {
        const attack: Attack = (normal, { scheduler }) => {
          const handle = scheduler.inspect().requests.find(({ id }) => id === 'v')?.handle;
          if (handle !== undefined) scheduler.abort(['v', handle]);
          return normal();
        };
        const bench = attacked(method, attack, { pipelineDepth });
        const { b } = live(bench);
        const { finished, anomalies } = bench.driver.scheduler.stats();
        expect(finished.abort + finished.length).toBe(2);
        expect(callbacks(bench.driver, 'v')).toHaveLength(1);
        expect(anomalies['connector-failed']).toBeUndefined();
        expectContained(bench.driver, b, pipelineDepth);
      }
    });
  }

  it('it changes the arrays that it is given: the scheduler has its own', () => {
    const wipe = (lists: readonly Int32Array[]): void => {
      for (const blocks of lists) blocks.fill(-7);
    };
    const bench = attacked('shutdown', (normal) => normal());
    const { connector } = bench.driver;
    const { updateStateAfterAlloc, requestFinished } = connector;
    connector.updateStateAfterAlloc = (request, blocks, count) => {
      updateStateAfterAlloc.call(
        connector,
        request,
        blocks.map((list) => list.slice()),
        count,
      );
      wipe(blocks);
    };
    connector.requestFinished = (request, reason, handOver) => {
      const answer = requestFinished.call(connector, request, reason, handOver);
      wipe(handOver.blocks);
      return answer;
    };
    const { v, b } = live(bench);
    expect(bench.driver.text(v)).toEqual(bench.driver.model.text(v, 3));
    expectContained(bench.driver, b, 'wiped');
  });
});

// Pinned by: `askDelivery` in src/scheduler/connector/ask-connector.ts: no answer means no.
describe('requiresKvDelivery, asked about a request that stops after it was preempted', () => {
  /** `v` has its last token in flight when `b` takes its blocks. */
  function preempted(attack: (normal: () => unknown, driver: RemoteDriver) => unknown) {
    let driver: RemoteDriver | undefined;
    const script = {
      get delivers(): boolean {
        return attack(() => true, driver as RemoteDriver) as boolean;
      },
    };
    driver = new RemoteDriver({ v: script }, { numBlocks: 5, pipelineDepth: 2 });
    const b = driver.add({ id: 'b', prompt: prompt(7, 1), maxTokens: 4 });
    const v = driver.add({ id: 'v', prompt: prompt(4), maxTokens: 2 });
    driver.run(50);
    expect(driver.scheduler.stats().numPreemptions).toBe(1);
    expect(driver.text(b)).toEqual(driver.model.text(b, 4));
    expect(driver.ends.get(v)).toEqual(['length']);
    expect(leftovers(driver.scheduler)).toEqual([]);
    return driver;
  }

  it('it is computed again, and ends with blocks to send', () => {
    expect(
      callbacks(
        preempted((normal) => normal()),
        'v',
      ),
    ).toEqual(['finished v length 2']);
  });

  it('throws whatever can be thrown: it ends without', () => {
    for (const [what, attack] of Object.entries(THROWN)) {
      const driver = preempted(attack);
      expect([what, callbacks(driver, 'v')]).toEqual([what, ['finished v length 0']]);
      expect([what, driver.anomalies]).toEqual([what, { 'connector-failed': 1 }]);
    }
  });

  it('calls back into the scheduler: refused, and it may go on', () => {
    for (const [what, call] of Object.entries(REENTRANT)) {
      const driver = preempted((normal, { scheduler }) => {
        expect([what, codeOf(() => call(driverOf(scheduler), 1))]).toEqual([what, 'ERR_BLOCKSTEP_REENTRANT']);
        return normal();
      });
      expect([what, callbacks(driver, 'v')]).toEqual([what, ['finished v length 2']]);
    }
  });

  const driverOf = (scheduler: RemoteDriver['scheduler']): RemoteDriver => ({ scheduler }) as RemoteDriver;
});

describe('bindPins', () => {
  it('throws: there is no scheduler, and its error is the constructor’s', () => {
    const planted = new Error('planted');
    const connector = new ScriptedConnector({}, { protection: 'pin' });
    connector.bindPins = () => {
      throw planted;
    };
    expect(() => makeScheduler({ connector })).toThrow(planted);
  });

  it('pins what is none: refused, and nothing is pinned', () => {
    const connector = new ScriptedConnector({}, { protection: 'pin' });
    const scheduler = makeScheduler({ connector });
    for (const bad of [[0], [33], [-1], [1, 99]]) {
      for (const change of [connector.pins?.pin, connector.pins?.unpin]) {
        expect(codeOf(() => change?.(Int32Array.from(bad)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
      }
    }
    expect(codeOf(() => connector.pins?.pin([1] as unknown as Int32Array))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(leftovers(scheduler)).toEqual([]);
  });
});
