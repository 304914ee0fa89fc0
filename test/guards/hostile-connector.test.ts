import { describe, expect, it } from 'vitest';
import type { SchedulerConnector } from '../../src/index.js';
import { Request } from '../../src/scheduler/request.js';
import { leftovers, prompt } from '../scheduler/support.js';
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

/** Those whose answer decides something, and how `v` ends when there is none. */
const ENDS_WITHOUT: Partial<Record<Method, string>> = {
  onNewRequest: 'error',
  getNumNewMatchedTokens: 'error',
  updateStateAfterAlloc: 'error',
  buildMetadata: 'error',
};

type Attack = (normal: () => unknown, driver: RemoteDriver) => unknown;

/** A driver whose connector does as it is told, but for one method when it is called about `v` or about nobody. */
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
  // Whatever is not reported by now is given up, and then fenced.
  clock.now += 100;
  step();
  scheduler.fenceTransfers();
  step();
  scheduler.resetPrefixCache({ resetConnector: true });
  return { v, b };
}

/** What one request may cost: itself. */
function expectContained(driver: RemoteDriver, b: number, what: unknown): void {
  expect([what, driver.text(b)]).toEqual([what, driver.model.text(b, 12)]);
  expect([what, driver.ends.get(b), driver.timesFinished('v')]).toEqual([what, ['length'], 1]);
  expect([what, leftovers(driver.scheduler)]).toEqual([what, []]);
  const next = driver.add({ id: 'next', prompt: prompt(9, 5), maxTokens: 2 });
  driver.run(50, () => driver.scheduler.numUnfinished > 0);
  expect([what, driver.text(next)]).toEqual([what, driver.model.text(next, 2)]);
  driver.scheduler.dispose();
}

const unreadable = (): object =>
  new Proxy(
    {},
    {
      get: () => {
        throw new Error('planted in a getter');
      },
    },
  );

const THROWN: Record<string, () => never> = {
  'an error': () => {
    throw new Error('planted');
  },
  'a string': () => {
    throw 'planted';
  },
  undefined: () => {
    throw undefined;
  },
  null: () => {
    throw null;
  },
  'an object that cannot be read': () => {
    throw unreadable();
  },
  'an error whose message throws': () => {
    throw Object.defineProperty(new Error('x'), 'message', {
      get: () => {
        throw new Error('planted in a message');
      },
    });
  },
  'a stack overflow': () => {
    const down = (): never => down();
    return down();
  },
};

const NONSENSE: Record<string, () => unknown> = {
  undefined: () => undefined,
  null: () => null,
  'not a number': () => Number.NaN,
  'a string': () => 'none',
  true: () => true,
  'a symbol': () => Symbol('x'),
  'a bigint': () => 1n,
  'an empty object': () => ({}),
  'an array': () => [1],
  'a function': () => () => 0,
  'a promise': () => Promise.resolve({ numTokens: 8, async: true, delayFree: false }),
  'an object that cannot be read': unreadable,
  'numTokens as text': () => ({ numTokens: '8', async: true }),
  'a negative numTokens': () => ({ numTokens: -1, async: false }),
  'half a token': () => ({ numTokens: 0.5, async: false }),
  'more tokens than there are': () => ({ numTokens: 10, async: true }),
  'endless tokens': () => ({ numTokens: Number.POSITIVE_INFINITY, async: true }),
  'async that is none': () => ({ numTokens: 8, async: 1 }),
  'nothing, asynchronously': () => ({ numTokens: 0, async: true }),
  'a child that it has not': () => ({ numTokens: 8, async: true, child: 1, delayFree: true, children: [1] }),
  'a child that is none': () => ({ numTokens: 8, async: true, child: '0', delayFree: true, children: ['0'] }),
  'delayFree that is none': () => ({ delayFree: 1 }),
  'no child at all': () => ({ delayFree: true, children: [] }),
  'children that are no list': () => ({ delayFree: true, children: 0 }),
  'params that are none': () => ({ delayFree: false, transferParams: 'x' }),
};

/** Answers among these that are good ones of a method. */
const GOOD: Partial<Record<Method, readonly string[]>> = {
  resetCache: ['undefined', 'true'],
};

const DECIDES: readonly Method[] = ['getNumNewMatchedTokens', 'requestFinished', 'resetCache'];

const REENTRANT: Record<string, (driver: RemoteDriver, handle: number) => unknown> = {
  add: ({ scheduler }) => scheduler.add({ id: 'x', prompt: prompt(4), maxTokens: 1 }),
  addChunk: ({ scheduler }) => scheduler.addChunk('v', { prompt: prompt(4) }),
  endSession: ({ scheduler }) => scheduler.endSession('v'),
  abortAll: ({ scheduler }) => scheduler.abortAll(),
  schedule: ({ scheduler }) => scheduler.schedule(),
  updateTransfers: ({ scheduler }) => scheduler.updateTransfers({}),
  fenceTransfers: ({ scheduler }) => scheduler.fenceTransfers(),
  resetPrefixCache: ({ scheduler }) => scheduler.resetPrefixCache({ resetRunning: true }),
  pause: ({ scheduler }) => scheduler.pause('all'),
  resume: ({ scheduler }) => scheduler.resume(),
  hold: ({ scheduler }, handle) => scheduler.hold(handle, 'store', 'x'),
  complete: ({ scheduler }, handle) => scheduler.complete(handle, 'store', 'x'),
  verify: ({ scheduler }) => scheduler.verify(),
  dispose: ({ scheduler }) => scheduler.dispose(),
};

function readAll({ scheduler }: RemoteDriver): void {
  scheduler.stats();
  scheduler.inspect();
  scheduler.digest();
  scheduler.get('v');
  for (const { handle } of scheduler.inspect().requests) scheduler.getByHandle(handle);
}

// Pinned by: the boundary around every call of a connector, `ask` and `tell` in src/scheduler/ask-connector.ts.
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
        const counts = DECIDES.includes(method) && !GOOD[method]?.includes(what);
        expect([what, driver.anomalies['connector-failed'] ?? 0]).toEqual([what, counts ? calls.count : 0]);
        const end = counts ? (ENDS_WITHOUT[method] ?? 'length') : 'length';
        expect([what, driver.ends.get(v)]).toEqual([what, [end]]);
        expectContained(driver, b, what);
      }
    });

    // Fails: `Scheduler.hasWork` asks outside of the gate.
    const refused = method === 'hasPendingWork' ? it.fails : it;
    refused(`${method} calls back into the scheduler: refused, and it may go on`, () => {
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
    const wipe = (blocks: unknown): void => {
      if (blocks instanceof Int32Array) blocks.fill(-7);
    };
    const bench = attacked('shutdown', (normal) => normal());
    const { connector } = bench.driver;
    const { updateStateAfterAlloc, requestFinished } = connector;
    connector.updateStateAfterAlloc = (request, blocks, count) => {
      updateStateAfterAlloc.call(connector, request, blocks.slice(), count);
      wipe(blocks);
    };
    connector.requestFinished = (request, reason, blocks) => {
      const answer = requestFinished.call(connector, request, reason, blocks.slice());
      wipe(blocks);
      return answer;
    };
    const { v, b } = live(bench);
    expect(bench.driver.text(v)).toEqual(bench.driver.model.text(v, 3));
    expectContained(bench.driver, b, 'wiped');
  });
});
