// Every wrong report about a transfer is counted and changes nothing; strict mode throws.
import { describe, expect, it } from 'vitest';
import type { ConnectorOutput } from '../../src/connector.js';
import { BlockstepError, type SchedulerOptions } from '../../src/index.js';
import type { Script } from '../support/connector/scripted-connector.js';
import { codeOf, leftovers, prompt } from '../support/driver.js';
import { RemoteDriver } from './remote.js';
import { expectText, expectUnchanged, scheduleWork } from './support.js';

/** A message that a correct peer would not send, and its effect on the request that it names. */
interface Foreign {
  reason: string;
  what: string;
  /** A race: a correct peer may report it too, because it cannot know better. Strict mode does not throw it. */
  isRace?: true;
  scripts?: Record<string, Script>;
  options?: Partial<SchedulerOptions>;
  /** Brings the scheduler into the state in which the report is wrong. @returns the handle of the request */
  prepare: (driver: RemoteDriver) => number;
  say: (handle: number, driver: RemoteDriver) => ConnectorOutput;
  /** The further messages of a correct peer. */
  conclude?: (driver: RemoteDriver, handle: number) => void;
}

const input = { prompt: prompt(9), maxTokens: 3 };
const LOADS = { a: { ext: 8, async: true } };
const SENDS = { a: { delayFree: true } };

const load = (driver: RemoteDriver): number => driver.loading({ id: 'a', ...input });
const received = (driver: RemoteDriver, handle: number): void => driver.received(handle, 0, 1);

function send(driver: RemoteDriver): number {
  const handle = driver.add({ id: 'a', ...input });
  driver.run(20, () => driver.scheduler.numUnfinished > 0);
  return handle;
}

function run(driver: RemoteDriver): number {
  const handle = driver.add({ id: 'a', ...input });
  driver.step();
  return handle;
}

const FOREIGN: Foreign[] = [
  {
    reason: 'stale-handle',
    what: 'a report about a request that is gone',
    prepare: (driver) => {
      const handle = send(driver);
      driver.step();
      return handle;
    },
    say: (handle) => ({ finishedSending: [{ handle }] }),
  },
  {
    reason: 'duplicate-completion',
    what: 'a rank that has said so before',
    scripts: LOADS,
    prepare: (driver) => {
      const handle = load(driver);
      driver.say({ finishedReceiving: [{ handle, rank: 1 }] });
      return handle;
    },
    say: (handle) => ({ finishedReceiving: [{ handle, rank: 1 }] }),
    conclude: (driver, handle) => driver.received(handle, 0),
  },
  {
    reason: 'live-completion',
    what: 'sent, and it still runs',
    scripts: SENDS,
    prepare: run,
    say: (handle) => ({ finishedSending: [{ handle }] }),
    conclude: (driver, handle) => {
      driver.run(20, () => driver.scheduler.numUnfinished > 0);
      driver.sent(handle, 1);
    },
  },
  {
    reason: 'live-completion',
    what: 'received, and it loads nothing',
    prepare: run,
    say: (handle) => ({ finishedReceiving: [{ handle }] }),
  },
  {
    reason: 'wrong-owner',
    what: 'a child that was not asked',
    scripts: LOADS,
    prepare: load,
    say: (handle) => ({ finishedReceiving: [{ handle, child: 1 }] }),
    conclude: received,
  },
  {
    reason: 'wrong-owner',
    what: 'a rank that there is not',
    scripts: SENDS,
    prepare: send,
    say: (handle) => ({ finishedSending: [{ handle, rank: 2 }] }),
    conclude: (driver, handle) => driver.sent(handle, 0, 1),
  },
  {
    reason: 'wrong-direction',
    what: 'received, and it is sent',
    scripts: SENDS,
    prepare: send,
    say: (handle) => ({ finishedReceiving: [{ handle }] }),
    conclude: (driver, handle) => driver.sent(handle, 0, 1),
  },
  {
    reason: 'invalid-block',
    what: 'a block that nobody loads',
    prepare: run,
    say: (handle, driver) => ({ invalidBlocks: [{ block: driver.blocks(handle)[0] }] }),
  },
  {
    reason: 'invalid-block',
    what: 'a block that there is not',
    scripts: LOADS,
    prepare: load,
    say: () => ({ invalidBlocks: [{ block: 99 }] }),
    conclude: received,
  },
  {
    reason: 'reassigned-block',
    what: 'a block of a step in flight that has another owner',
    isRace: true,
    scripts: { gone: { ext: 8 } },
    options: { numBlocks: 5, pipelineDepth: 2 },
    prepare: (driver) => {
      const gone = driver.add({ id: 'gone', prompt: prompt(9, 1), maxTokens: 3 });
      scheduleWork(driver);
      const [block] = driver.blocks(gone);
      driver.abort('gone');
      const handle = driver.add({ id: 'a', prompt: prompt(14), maxTokens: 3 });
      scheduleWork(driver);
      expect(driver.blocks(handle)).toContain(block);
      return handle;
    },
    say: (handle, driver) => ({ invalidBlocks: [{ block: driver.blocks(handle).at(-1) as number }] }),
  },
  {
    reason: 'connector-failed',
    what: 'a report that names nothing',
    scripts: LOADS,
    prepare: load,
    say: () => ({ finishedReceiving: [{ handle: -1 }] }),
    conclude: received,
  },
  {
    reason: 'unknown-completion',
    what: 'sent, and nothing of it was to be sent',
    prepare: (driver) => {
      const handle = run(driver);
      driver.scheduler.hold(handle, 'lease', 'peer');
      driver.run(20, () => driver.scheduler.numUnfinished > 0);
      return handle;
    },
    say: (handle) => ({ finishedSending: [{ handle }] }),
    conclude: (driver, handle) => {
      driver.scheduler.complete(handle, 'lease', 'peer');
    },
  },
];

function bring({ scripts = {}, options = {}, prepare }: Foreign, strict: boolean) {
  const driver = new RemoteDriver(scripts, { reporters: [[0, 1], [0]], strict, ...options });
  return { driver, handle: prepare(driver) };
}

/** The request is served as if nothing had been reported. */
function expectServed(driver: RemoteDriver, handle: number, { conclude }: Foreign): void {
  conclude?.(driver, handle);
  driver.run();
  expectText(driver, handle, 3);
  expect(leftovers(driver.scheduler)).toEqual([]);
}

describe('get and skip', () => {
  for (const foreign of FOREIGN) {
    it(`${foreign.reason}: ${foreign.what}: counted, and nothing changes`, () => {
      const { driver, handle } = bring(foreign, false);
      const output = foreign.say(handle, driver);
      expectUnchanged(driver.scheduler, () => driver.scheduler.updateTransfers(output));
      expect(driver.anomalies).toEqual({ [foreign.reason]: 1 });
      expectServed(driver, handle, foreign);
      expect(driver.anomalies).toEqual({ [foreign.reason]: 1 });
    });

    const outcome = foreign.isRace ? 'does not throw it' : 'throws it when all is done';
    it(`${foreign.reason}: ${foreign.what}: strict mode ${outcome}, and the scheduler goes on`, () => {
      const { driver, handle } = bring(foreign, true);
      const output = foreign.say(handle, driver);
      let thrown: unknown;
      expectUnchanged(driver.scheduler, () => {
        try {
          driver.scheduler.updateTransfers(output);
        } catch (error) {
          thrown = error;
        }
      });
      if (foreign.isRace) expect(thrown).toBeUndefined();
      else {
        expect(thrown).toBeInstanceOf(BlockstepError);
        expect(thrown).toMatchObject({
          code: 'ERR_BLOCKSTEP_ANOMALY',
          message: expect.stringMatching(`^${foreign.reason}: `),
        });
      }
      expect(driver.anomalies).toEqual({ [foreign.reason]: 1 });
      expectServed(driver, handle, foreign);
    });
  }

  it('strict mode throws the first of several, once, and takes what was right in the same list', () => {
    const driver = new RemoteDriver(LOADS, { reporters: [[0, 1], [0]], strict: true });
    const handle = load(driver);
    driver.land(handle);
    const reports = [{ handle: 1e6 }, { handle, rank: 0 }, { handle, rank: 0 }, { handle, rank: 1 }];
    expect(() => driver.scheduler.updateTransfers({ finishedReceiving: reports })).toThrow(/^stale-handle: /);
    expect(driver.anomalies).toEqual({ 'stale-handle': 1, 'duplicate-completion': 1 });
    driver.run();
    expectText(driver, handle, 3);
  });

  it('strict mode throws at the end of an update too: the step was taken', () => {
    const driver = new RemoteDriver({}, { strict: true });
    const handle = driver.add({ id: 'a', ...input });
    scheduleWork(driver);
    const { plan, tokens, counts } = driver.inFlight[0];
    const output = { finishedSending: [{ handle: 1e6 }] };
    expect(codeOf(() => driver.scheduler.update(plan, { tokens, counts }, output))).toBe(
      'ERR_BLOCKSTEP_ANOMALY',
    );
    driver.inFlight.shift();
    driver.scheduler.verify();
    expect(driver.request(handle).numOutputTokens).toBe(1);
    driver.run();
    expect(driver.ends.get(handle)).toEqual(['length']);
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('a list that is none is refused, and nothing was taken nor is thrown by the next call', () => {
    const driver = new RemoteDriver(LOADS, { reporters: [[0, 1], [0]], strict: true });
    const handle = load(driver);
    const bad = { finishedReceiving: [null, { handle }], finishedSending: 5 } as unknown as ConnectorOutput;
    expectUnchanged(driver.scheduler, () => {
      expect(codeOf(() => driver.scheduler.updateTransfers(bad))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    });
    expect(driver.anomalies).toEqual({});
  });
});
