// A log with a connector replays to the same plans and state.
import { describe, expect, it } from 'vitest';
import type { Finished } from '../../src/connector.js';
import type { Scheduler } from '../../src/index.js';
import { readLog, replayCommands, replayInputs } from '../../src/replay.js';
import { RemoteEngine } from '../guards/remote-engine.js';
import { type Script, ScriptedConnector } from '../support/connector/scripted-connector.js';
import { codeOf, Driver, describePlan, prompt } from '../support/driver.js';
import { MemorySink } from '../support/recorded-log.js';
import { connected, recorded } from './recorded-life.js';

/** Runs a log again, and checks that it becomes the same log and the given state. */
function expectSame(bytes: Uint8Array, digest: bigint): Scheduler {
  const log = new MemorySink();
  const replayed = replayInputs(bytes, undefined, log);
  expect([...readLog(log.bytes)].slice(1)).toEqual([...readLog(bytes)].slice(1));
  expect(replayed.digest()).toBe(digest);
  expect(replayCommands(bytes).digest).toBe(digest);
  return replayed;
}

/** The content of a log, without its commands and pauses. */
function say(bytes: Uint8Array): string[] {
  return [...readLog(bytes)].flatMap((record) => {
    if (record.kind === 'connector')
      return [`${record.answer.question} ${JSON.stringify(record.answer.answer)}`];
    if (record.kind === 'pins') return [`${record.pinned ? 'pin' : 'unpin'} ${record.blocks.join(',')}`];
    return record.kind === 'commands' || record.kind === 'header' ? [] : [record.kind];
  });
}

function withoutBlocks(plan: string): unknown {
  const fields = JSON.parse(plan) as [...unknown[], string[]];
  const entries = fields.at(-1) as string[];
  return [...fields.slice(0, -1), entries.map((entry) => entry.replace(/[^ ]*$/, ''))];
}

describe('a random life with a connector', () => {
  const happened: Record<string, number> = {};

  for (let seed = 0; seed < 24; seed++) {
    it(`seed ${seed}: is run again with the same plans, the same state and the same records`, () => {
      const { life, bytes, plans } = recorded(seed);
      for (const [what, times] of Object.entries(life.happened)) {
        happened[what] = (happened[what] ?? 0) + times;
      }
      for (const said of say(bytes)) {
        const what = said.endsWith('"failed"') ? said : said.replace(/ .*/, '');
        happened[what] = (happened[what] ?? 0) + 1;
      }
      const digest = life.scheduler.digest();
      expect(replayCommands(bytes).digest).toBe(digest);
      const log = new MemorySink();
      const again: string[] = [];
      const target: { scheduler?: Scheduler } = {};
      target.scheduler = replayInputs(bytes, (plan) => again.push(describePlan(plan)), log);
      expect(again.map((plan) => JSON.parse(plan) as unknown)).toEqual(plans.map(withoutBlocks));
      expect(target.scheduler.digest()).toBe(digest);
      expect([...readLog(log.bytes)].slice(1)).toEqual([...readLog(bytes)].slice(1));
      const { finished, numPreemptions, quarantines, failedLoads, anomalies } = life.scheduler.stats();
      const told = { finished, numPreemptions, quarantines, failedLoads };
      expect(target.scheduler.stats()).toMatchObject(told);
      expect(target.scheduler.stats().anomalies['connector-failed']).toBe(anomalies['connector-failed']);
      target.scheduler.verify();
      target.scheduler.dispose();
    });
  }

  it('has everything in it that a connector can do', () => {
    const questions = [
      'new',
      'match',
      'alloc',
      'metadata',
      'output',
      'finished',
      'cancel',
      'delivery',
      'reset',
    ];
    const failed = questions.slice(0, 6).map((question) => `${question} "failed"`);
    const loads = ['load', 'failed load', 'synchronous load', 'failed synchronous load'];
    for (const what of [...questions, ...failed, ...loads, 'store', 'fence', 'pin', 'unpin', 'late abort']) {
      expect(happened[what] ?? 0, what).toBeGreaterThan(0);
    }
  });
});

describe('a log with a connector', () => {
  it('says what the connector is, and behind each call what it was asked and answered', () => {
    const { driver, connector, log } = connected(
      { a: { ext: 8, async: true, delayFree: true, defer: 1 } },
      { loadFailurePolicy: 'recompute', reclaim: 'on-confirmation', deadlines: { load: 5, reclaim: 6 } },
    );
    const { scheduler } = driver;
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 });
    driver.schedule();
    driver.schedule();
    scheduler.updateTransfers({ finishedReceiving: [{ handle, step: 1 }], invalidBlocks: [{ block: 99 }] });
    driver.schedule();
    const { plan, tokens, counts } = driver.inFlight[0];
    scheduler.update(plan, { tokens, counts }, { finishedSending: [] });
    scheduler.abort(handle);
    scheduler.fenceTransfers();
    scheduler.resetPrefixCache({ resetConnector: true });
    const [first, ...records] = [...readLog(log.bytes)];
    expect(first).toMatchObject({
      header: {
        loadFailurePolicy: 'recompute',
        reclaim: 'on-confirmation',
        deadlines: { load: 5, reclaim: 6 },
        connector: { protection: ['own', 'pin'], reporters: [[0]] },
      },
    });
    const later = 'match {"numTokens":null,"async":false,"child":0,"wakes":false}';
    const match = 'match {"numTokens":8,"async":true,"child":0,"wakes":false}';
    const metadata = 'metadata {"failedChildren":[]}';
    const finished = 'finished {"delayFree":true,"children":[0],"transferParams":{"remote":"a"}}';
    expect(say(log.bytes)).toEqual([
      ...['add', 'new true', 'schedule', later, metadata],
      ...['schedule', match, 'alloc true', metadata, 'transfers', 'output true'],
      ...['schedule', 'alloc true', metadata, 'transfers', 'update', finished, 'output true'],
      ...['abort', 'cancel true', 'fence', 'reset', 'reset {}'],
    ]);
    const transfers = records.filter((record) => record.kind === 'transfers');
    const empty = { finishedReceiving: [], finishedSending: [], failedReceiving: [], invalidBlocks: [] };
    const none = { ...empty, lostBlocks: [], renewed: [] };
    const received = [{ handle, child: 0, rank: 0, step: 1 }];
    expect(transfers.map(({ withUpdate, output }) => ({ withUpdate, output }))).toEqual([
      {
        withUpdate: false,
        output: { ...none, finishedReceiving: received, invalidBlocks: [{ block: 99, child: 0 }] },
      },
      { withUpdate: true, output: none },
    ]);
    expect(records.find(({ kind }) => kind === 'fence')).toMatchObject({ child: undefined });
    expect(records.find(({ kind }) => kind === 'reset')).toMatchObject({ resetConnector: true });
    expect(connector.drain()).toContain('cancel a');
    const replayed = expectSame(log.bytes, scheduler.digest());
    expect(replayed.getByHandle(handle)).toBe(scheduler.getByHandle(handle));
  });

  it('names the child of a fence, and options that are no defaults', () => {
    const log = new MemorySink();
    const connector = new ScriptedConnector({}, { protection: 'fence', reporters: [[0], [1, 2]] });
    const driver = new Driver({ connector, log });
    driver.scheduler.fenceTransfers(1);
    const [first, fence] = [...readLog(log.bytes)];
    expect(first).toMatchObject({
      header: { connector: { protection: ['fence'], reporters: [[0], [1, 2]] } },
    });
    expect(fence).toMatchObject({ kind: 'fence', child: 1 });
    const replayed = replayInputs(log.bytes);
    expect(replayed.config.connector).toMatchObject({ protection: ['fence'], reporters: [[0], [1, 2]] });
  });

  it('of a connector without optional methods is run again without them', () => {
    const log = new MemorySink();
    const driver = new Driver({
      log,
      connector: {
        getNumNewMatchedTokens: () => ({ numTokens: 0, async: false }),
        updateStateAfterAlloc: () => {},
        buildMetadata: () => null,
        requestFinished: () => ({ delayFree: false }),
      },
    });
    driver.add({ id: 'a', maxTokens: 2 });
    driver.run();
    driver.scheduler.updateTransfers({});
    driver.scheduler.resetPrefixCache({ resetConnector: true });
    expect(say(log.bytes).filter((what) => /new|output|delivery|reset .*/.test(what))).toEqual([]);
    expectSame(log.bytes, driver.scheduler.digest());
  });

  it('keeps pins where they were: in the callback, between calls, at the beginning and at the end', () => {
    const { driver, connector, log } = connected({ a: { delayFree: true }, b: { delayFree: true } });
    const { scheduler } = driver;
    const handles = ['a', 'b'].map((id, i) => driver.add({ id, prompt: prompt(9, i), maxTokens: 2 }));
    driver.step();
    const blocks = handles.map((handle) => scheduler.core.blocks(driver.request(handle).slot).slice());
    const order: string[] = [];
    connector.during = (method) => {
      order.push(method);
      // b's blocks are in the free queue before those of a, which the report behind this gives
      // back.
      if (method === 'output') connector.pins?.unpin(blocks[1]);
    };
    connector.pins?.pin(blocks[1]);
    driver.step();
    scheduler.fenceTransfers();
    scheduler.resetPrefixCache();
    scheduler.updateTransfers({ finishedSending: [{ handle: handles[0] }] });
    connector.pins?.pin(Int32Array.of(30, 31));
    const digest = scheduler.digest();
    expect(order).toContain('output');
    const said = say(log.bytes);
    expect(said.slice(said.indexOf('transfers'))).toEqual([
      ...['transfers', `unpin ${blocks[1].join(',')}`, 'output true', 'pin 30,31'],
    ]);
    expectSame(log.bytes, digest);
    connector.during = (method) => {
      if (method === 'shutdown') connector.pins?.unpin(Int32Array.of(30));
    };
    scheduler.dispose();
    expect(replayCommands(log.bytes).digest).not.toBe(digest);
    expectSame(log.bytes, replayCommands(log.bytes).digest);
  });

  it('keeps what the connector pinned and freed in one call in that order', () => {
    const { driver, connector, log } = connected({ a: { delayFree: true } });
    const { scheduler } = driver;
    const handle = driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 });
    driver.run(99, () => !(scheduler.getByHandle(handle)?.isFinished ?? true));
    const block = scheduler.stats().freeBlocks;
    connector.pins?.pin(Int32Array.of(block));
    connector.during = (method) => {
      if (method === 'output') connector.pins?.unpin(Int32Array.of(block));
    };
    scheduler.updateTransfers({ finishedSending: [{ handle }] });
    expectSame(log.bytes, scheduler.digest());
  });

  it('keeps the pins that a connector takes when it is bound', () => {
    const log = new MemorySink();
    class Eager extends ScriptedConnector {
      override bindPins(pins: NonNullable<ScriptedConnector['pins']>): void {
        pins.pin(Int32Array.of(1, 2, 2));
      }
    }
    const driver = new Driver({ log, connector: new Eager({}, { protection: 'pin' }) });
    expect(say(log.bytes)).toEqual(['pin 1,2,2']);
    const replayed = expectSame(log.bytes, driver.scheduler.digest());
    expect(replayed.core.freeBlocks).toBe(30);
  });

  it('tells a failed step without entries from one in flight', () => {
    const { driver, log } = connected({}, { pipelineDepth: 2, maxNumSeqs: 1 });
    const { scheduler } = driver;
    driver.add({ id: 'a', maxTokens: 1 });
    const first = scheduler.schedule();
    const empty = scheduler.schedule();
    expect([first.totalTokens, empty.totalTokens]).toEqual([8, 0]);
    scheduler.failStep(empty, {});
    scheduler.update(first, { tokens: Int32Array.of(5), counts: Int32Array.of(1) });
    expect(scheduler.stats().finished).toMatchObject({ length: 1, error: 0 });
    expectSame(log.bytes, scheduler.digest());
  });

  it('takes transfer params and children of any kind, and costs nobody anything', () => {
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    const odd = [{ id: 7n }, cyclic, { toJSON: () => 5 }, { toJSON: () => undefined }, [1, 2]];
    const log = new MemorySink();
    class Odd extends ScriptedConnector {
      transferParams: Record<string, unknown> = {};

      override requestFinished(): Finished {
        return { delayFree: false, children: [8n] as never, transferParams: this.transferParams };
      }
    }
    const connector = new Odd();
    const driver = new Driver({ log, connector });
    for (const [i, transferParams] of odd.entries()) {
      connector.transferParams = transferParams as Record<string, unknown>;
      const handle = driver.add({ id: `r${i}`, prompt: prompt(9, i), maxTokens: 1 });
      const request = driver.request(handle);
      driver.run();
      expect(request.finishReason).toBe('length');
      expect(request.finishedParams).toBe(transferParams);
    }
    expect(say(log.bytes).filter((what) => what.startsWith('finished'))).toEqual([
      ...new Array<string>(4).fill('finished {"delayFree":false,"children":[]}'),
      'finished {"delayFree":false,"children":[],"transferParams":[1,2]}',
    ]);
    expectSame(log.bytes, driver.scheduler.digest());
  });

  it('holds none of the reports that name nothing, so that it can be read', () => {
    const { driver, log } = connected({});
    const named = [Number.NaN, Number.POSITIVE_INFINITY, 1.5, '1', 2n];
    const invalidBlocks = named.map((block) => ({ block: block as number }));
    driver.scheduler.updateTransfers({ invalidBlocks: [...invalidBlocks, { block: -3 }] });
    expect(driver.scheduler.stats().anomalies).toMatchObject({ 'connector-failed': 5, 'invalid-block': 1 });
    expect([...readLog(log.bytes)].find(({ kind }) => kind === 'transfers')).toMatchObject({
      output: { invalidBlocks: [{ block: -3 }] },
    });
    expectSame(log.bytes, driver.scheduler.digest());
  });

  it.each([1, 2, 3] as const)(
    'of an engine with workers is run again without either, depth %i',
    async (depth) => {
      const log = new MemorySink();
      const scripts: Record<string, Script> = {
        r: { ext: 8, async: true, delayFree: true },
        s: { ext: 4 },
        lost: { ext: 8, async: true },
      };
      const bench = new RemoteEngine(scripts, { pipelineDepth: depth, log, ranks: 2, numBlocks: 16 });
      const streams = ['r', 'o', 'lost', 's', 'p', 'q'].map((id, i) =>
        bench.submit({ id, prompt: prompt(9, i) }),
      );
      bench.workers[1].extra.push({ failedReceiving: [{ handle: streams[2].handle }] });
      bench.steps();
      bench.land('r');
      bench.land('lost');
      streams[5].abort();
      await bench.finish();
      bench.send(streams[0]);
      await bench.finish();
      const said = new Set(say(log.bytes).map((what) => what.replace(/ .*/, '')));
      expect([...said]).toEqual(
        expect.arrayContaining(['match', 'transfers', 'output', 'finished', 'abort']),
      );
      expect(bench.engine.stats().scheduler.finished).toMatchObject({ length: 4, error: 1, abort: 1 });
      expectSame(log.bytes, bench.engine.scheduler.digest());
    },
  );

  it('of a strict scheduler is run again past what was thrown', () => {
    const { driver, connector, log } = connected({ a: { ext: 4, async: true } }, { strict: true });
    const { scheduler } = driver;
    const handle = driver.add({ id: 'a', maxTokens: 2 });
    driver.schedule();
    const foreign = { finishedReceiving: [{ handle }, { handle, rank: 3 }] };
    expect(codeOf(() => scheduler.updateTransfers(foreign))).toBe('ERR_BLOCKSTEP_ANOMALY');
    connector.throwing.add('output');
    expect(codeOf(() => scheduler.updateTransfers({}))).toBe('ERR_BLOCKSTEP_ANOMALY');
    const plan = scheduler.schedule();
    connector.throwing.add('finished');
    const result = { tokens: Int32Array.of(5), counts: Int32Array.of(1) };
    scheduler.update(plan, result);
    const last = scheduler.schedule();
    expect(codeOf(() => scheduler.update(last, result))).toBe('ERR_BLOCKSTEP_ANOMALY');
    const replayed = expectSame(log.bytes, scheduler.digest());
    expect(replayed.stats().finished).toEqual(scheduler.stats().finished);
    expect(replayed.stats().anomalies).toMatchObject({ 'wrong-owner': 1, 'connector-failed': 2 });
  });

  it.each(['on-report', 'on-confirmation'] as const)(
    'has the abort of a request that ended before it was carried out only where it says something: %s',
    (reclaim) => {
      const { driver, connector, log } = connected({ b: { delayFree: true } }, { reclaim });
      for (const [i, id] of ['a', 'b'].entries()) driver.add({ id, prompt: prompt(6, i), maxTokens: 1 });
      connector.during = (method, request) => {
        if (method === 'finished' && request?.id === 'a') driver.scheduler.abort('b');
      };
      driver.step();
      driver.schedule();
      const isAsked = reclaim === 'on-confirmation';
      expect(connector.drain().includes('cancel b')).toBe(isAsked);
      expect(say(log.bytes).includes('abort')).toBe(isAsked);
      expectSame(log.bytes, driver.scheduler.digest());
    },
  );

  it('asks the connector to stop where the abort stands, and never from inside a callback', () => {
    const { driver, connector, log } = connected(
      { a: { delayFree: true }, b: { ext: 4, async: true } },
      { reclaim: 'on-confirmation' },
    );
    const { scheduler } = driver;
    const a = driver.add({ id: 'a', maxTokens: 1 });
    driver.run(99, () => !(scheduler.getByHandle(a)?.isFinished ?? true));
    connector.drain();
    let isInside = false;
    connector.during = (method) => {
      if (method !== 'new') return;
      isInside = true;
      expect(scheduler.abort('a')).toEqual([]);
      expect(connector.drain()).toEqual(['new b']);
    };
    driver.add({ id: 'b', prompt: prompt(9, 3) });
    expect(isInside).toBe(true);
    driver.schedule();
    expect(connector.drain()).toEqual(['cancel a', 'match b 0', 'alloc b 4 of 1']);
    scheduler.abort(['a', 'b']);
    expect(connector.drain()).toEqual(['finished b abort 1']);
    const aborts = [...readLog(log.bytes)].filter(({ kind }) => kind === 'abort');
    expect(aborts).toMatchObject([{ handles: [a] }, { handles: [expect.any(Number)] }]);
    expectSame(log.bytes, scheduler.digest());
  });
});
