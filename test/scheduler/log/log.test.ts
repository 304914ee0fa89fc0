// A recorded random life replays to the same plans and state; damaged logs are refused.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../../src/base/errors.js';
import { loadAddon } from '../../../src/core/loader.js';
import { type LogRecord, readLog } from '../../../src/scheduler/log/log-reader.js';
import { coreConfig } from '../../../src/scheduler/options/core-config.js';
import { ruledConfig } from '../../../src/scheduler/options/options.js';
import { replayCommands, replayInputs } from '../../../src/scheduler/replay/log-replay.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import {
  codeOf,
  Driver,
  describePlan,
  leftovers,
  makeScheduler,
  prompt,
  Random,
} from '../../support/driver.js';
import { FakeGrammar } from '../../support/fake-grammar.js';
import { MemorySink } from '../../support/recorded-log.js';
import { Life } from '../random-life.js';

/** A random life on record, with the plans that it saw. */
function recorded(seed: number): { bytes: Uint8Array; scheduler: Scheduler; plans: string[] } {
  const log = new MemorySink();
  const life = new Life(seed, { log }, seed % 2 === 1);
  const { scheduler } = life.driver;
  const plans: string[] = [];
  const { schedule } = scheduler;
  scheduler.schedule = () => {
    const plan = schedule.call(scheduler);
    plans.push(describePlan(plan));
    return plan;
  };
  life.run(250);
  return { bytes: log.bytes, scheduler, plans };
}

function kinds(bytes: Uint8Array): string[] {
  return [...readLog(bytes)].map(({ kind }) => kind).filter((kind) => kind !== 'commands');
}

/** Where record `index` begins. */
function offsetOf(bytes: Uint8Array, index: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  let at = 12;
  for (let i = 0; i < index; i++) at += 8 + 4 * Math.ceil(view.getUint32(at + 4, true) / 4);
  return at;
}

describe('a log', () => {
  for (let seed = 0; seed < 12; seed++) {
    it(`seed ${seed}: its commands on a fresh native instance give the digest of the scheduler`, () => {
      const { bytes, scheduler } = recorded(seed);
      const words = [...readLog(bytes)].flatMap((record) =>
        record.kind === 'commands' ? [...record.words] : [],
      );
      expect(words.length).toBeGreaterThan(100);
      const result = loadAddon().replay(coreConfig(ruledConfig(scheduler.config)), Uint32Array.from(words));
      expect(result.digest).toBe(scheduler.digest());
      expect(result.freeBlocks).toBe(scheduler.core.freeBlocks);
      expect(replayCommands(bytes)).toEqual(result);
    });

    it(`seed ${seed}: its inputs make a new scheduler decide the same plans and reach the same digest`, () => {
      const { bytes, scheduler, plans } = recorded(seed);
      const again: string[] = [];
      const replayed = replayInputs(bytes, (plan) => again.push(describePlan(plan)));
      expect(again).toEqual(plans);
      expect(replayed.digest()).toBe(scheduler.digest());
      const { step, numPreemptions, evictions, finished, generationTokens } = scheduler.stats();
      const same = { step, numPreemptions, evictions, finished, generationTokens };
      expect(replayed.stats()).toMatchObject(same);
      replayed.verify();
      replayed.dispose();
    });
  }

  it('goes to a file as well, and can be read from there', () => {
    const folder = mkdtempSync(join(tmpdir(), 'blockstep-log-'));
    try {
      const path = join(folder, 'run.log');
      const file = openSync(path, 'w');
      const driver = new Driver({ log: { write: (bytes) => writeSync(file, bytes) } });
      driver.add({ id: 'a', prompt: prompt(9), maxTokens: 5 });
      driver.run();
      const digest = driver.scheduler.digest();
      driver.scheduler.dispose();
      closeSync(file);
      expect(replayCommands(new Uint8Array(readFileSync(path))).digest).toBe(digest);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('records every input that was accepted, in order, and none that was refused', () => {
    const log = new MemorySink();
    const driver = new Driver({ log, numSpeculativeTokens: 1 });
    const { scheduler } = driver;
    const handle = driver.add({ id: 'a', cacheSalt: 'salt', stopTokenIds: [1, 2], minTokens: 1 });
    expect(codeOf(() => driver.add({ id: 'a' }))).toBe('ERR_BLOCKSTEP_DUPLICATE_ID');
    expect(codeOf(() => scheduler.pause('no' as 'all'))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    scheduler.hold(handle, 'lease', 'peer');
    driver.step();
    driver.schedule(() => true);
    expect(codeOf(() => scheduler.schedule())).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
    driver.failStep();
    scheduler.complete(handle, 'lease', 'peer');
    scheduler.pause('new');
    scheduler.resume();
    scheduler.resetPrefixCache({ resetRunning: true });
    driver.add({ id: 'b' });
    driver.abort(['b', 'nobody']);
    driver.abort('nobody');
    driver.add({ id: 'c' });
    driver.abortAll();
    const expected = ['header', 'add', 'hold', 'schedule', 'update', 'drafts', 'schedule', 'stepFailed'];
    const then = ['complete', 'pause', 'pause', 'reset', 'add', 'abort', 'add', 'abort'];
    expect(kinds(log.bytes)).toEqual([...expected, ...then]);
    const [header, add] = [...readLog(log.bytes)].filter(({ kind }) => kind === 'header' || kind === 'add');
    expect(header).toMatchObject({ header: { numBlocks: 33, pipelineDepth: 1 } });
    const input = { id: 'a', cacheSalt: 'salt', stopTokenIds: [1, 2], minTokens: 1, maxTokens: 8 };
    expect(add).toMatchObject({ input: { ...input, prompt: prompt(8) } });
  });

  it('records sessions, and what grammars answered behind the call that asked', () => {
    const log = new MemorySink();
    const driver = new Driver({ log, numSpeculativeTokens: 2, pipelineDepth: 2 });
    const grammar = new FakeGrammar({ notReady: 1, allows: 1, accepts: 2 });
    const handle = driver.add({
      id: 's',
      maxTokens: 9,
      minTokens: 1,
      stopTokenIds: [4],
      resumable: true,
      grammar,
    });
    driver.addChunk(handle, { prompt: prompt(2, 5), arrivalTime: 0.25 });
    driver.schedule();
    driver.schedule();
    driver.schedule();
    driver.update();
    driver.endSession(handle);
    expect(kinds(log.bytes)).toEqual([
      ...['header', 'add', 'chunk', 'schedule', 'schedule', 'grammar', 'schedule', 'update', 'grammar'],
      ...['replacedDrafts', 'grammar', 'update', 'grammar', 'end'],
    ]);
    const records = [...readLog(log.bytes)];
    const [add, chunk] = records.filter(({ kind }) => kind === 'add' || kind === 'chunk');
    expect(add).toMatchObject({ constrained: true, input: { id: 's', resumable: true } });
    expect(add).not.toHaveProperty('input.grammar');
    const stops = { maxTokens: 9, minTokens: 1, stopTokenIds: [4] };
    expect(chunk).toMatchObject({ handle, input: { prompt: prompt(2, 5), arrivalTime: 0.25, ...stops } });
    expect(records.flatMap((record) => (record.kind === 'grammar' ? [record.answer] : []))).toEqual([
      { handle, question: 'ready', answer: 1 },
      { handle, question: 'acceptTokens', answer: 1 },
      { handle, question: 'validateTokens', answer: 1 },
      { handle, question: 'acceptTokens', answer: expect.any(Number) },
    ]);
    const replayed = replayInputs(log.bytes);
    expect(replayed.digest()).toBe(driver.scheduler.digest());
  });

  it('replays a deadline, a grammar that broke, and one that refused', () => {
    const log = new MemorySink();
    let now = 0;
    const driver = new Driver({ log, now: () => now, deadlines: { grammar: 10 }, numSpeculativeTokens: 1 });
    driver.add({ id: 'late', grammar: new FakeGrammar({ notReady: 99 }) });
    for (let throwsAt = 1; throwsAt < 4; throwsAt++) {
      driver.add({ id: `broken${throwsAt}`, grammar: new FakeGrammar({ throwsAt }) });
    }
    driver.add({ id: 'refuses', grammar: new FakeGrammar({ accepts: 3 }) });
    for (; now < 14; now++) driver.step();
    const replayed = replayInputs(log.bytes);
    expect(driver.scheduler.stats().finished.error).toBe(5);
    expect(replayed.digest()).toBe(driver.scheduler.digest());
    const { prefixCacheHits: _, ...stats } = driver.scheduler.stats();
    expect(replayed.stats()).toMatchObject(stats);
  });

  it('whose grammars were asked otherwise than it says is refused', () => {
    const log = new MemorySink();
    const driver = new Driver({ log });
    driver.add({ id: 'g', maxTokens: 3, grammar: new FakeGrammar() });
    driver.run();
    const { bytes } = log;
    const at = [...readLog(bytes)].findIndex(({ kind }) => kind === 'grammar');
    expect(at).toBeGreaterThan(0);
    for (const field of [0, 8]) {
      const damaged = bytes.slice();
      new DataView(damaged.buffer).setUint32(offsetOf(bytes, at) + 8 + field, 2, true);
      expect(codeOf(() => replayInputs(damaged))).toBe('ERR_BLOCKSTEP_BAD_LOG');
    }
  });

  it('keeps ids, salts and clocks of any kind', () => {
    const log = new MemorySink();
    let now = 0.1;
    const scheduler = makeScheduler({ log, now: () => now });
    const input = { id: 'é\ud800\n"', prompt: prompt(5), maxTokens: 3, cacheSalt: '塩', arrivalTime: -0.5 };
    scheduler.add(input);
    now = 1e12 + 1 / 3;
    scheduler.schedule();
    const records = [...readLog(log.bytes)];
    expect(records.find(({ kind }) => kind === 'add')).toMatchObject({ now: 0.1, input });
    expect(records.find(({ kind }) => kind === 'schedule')).toMatchObject({ now });
  });

  it('records an abort from a callback where it was carried out', () => {
    const log = new MemorySink();
    const ticks = { abort: false };
    const scheduler: Scheduler = makeScheduler({
      log,
      now: () => {
        if (ticks.abort) scheduler.abort('a');
        ticks.abort = false;
        return 1;
      },
    });
    scheduler.add({ id: 'a', prompt: prompt(5), maxTokens: 3 });
    ticks.abort = true;
    expect(scheduler.schedule().totalTokens).toBe(0);
    expect(kinds(log.bytes)).toEqual(['header', 'add', 'abort', 'schedule']);
    expect(replayInputs(log.bytes).digest()).toBe(scheduler.digest());
  });

  it('refuses a sink that calls back, so that no record is torn', () => {
    const codes: string[] = [];
    const memory = new MemorySink();
    let scheduler: Scheduler | undefined;
    const log = {
      write: (bytes: Uint8Array) => {
        if (scheduler !== undefined) codes.push(codeOf(() => scheduler?.schedule()));
        memory.write(bytes);
      },
    };
    scheduler = makeScheduler({ log });
    scheduler.add({ id: 'a', prompt: prompt(5), maxTokens: 3 });
    expect(new Set(codes)).toEqual(new Set(['ERR_BLOCKSTEP_REENTRANT']));
    expect(kinds(memory.bytes)).toEqual(['header', 'add']);
  });

  it('an input that cannot be written leaves nothing behind', () => {
    const driver = new Driver({ log: new MemorySink() });
    const input = { id: 'a', prompt: prompt(5), maxTokens: 3, note: 1n };
    try {
      driver.scheduler.add(input);
    } catch {
      expect(driver.scheduler.get('a')).toBeUndefined();
      expect(driver.scheduler.core.native.handle(0)).toBe(0);
    }
    driver.abortAll();
    expect(leftovers(driver.scheduler)).toEqual([]);
  });

  it('is not written, and commands are not recorded, without a sink', () => {
    const driver = new Driver();
    driver.add({ id: 'a' });
    driver.run();
    expect(driver.scheduler.core.native.drainLog()).toHaveLength(0);
  });
});

describe('a damaged log', () => {
  const { bytes } = recorded(4);
  const whole = [...readLog(bytes)];

  function read(damaged: Uint8Array): LogRecord[] | string {
    try {
      return [...readLog(damaged)];
    } catch (error) {
      if (error instanceof BlockstepError) return error.code;
      throw error;
    }
  }

  it('that was cut off anywhere ends with its last whole record', () => {
    for (let length = 12; length < bytes.length; length += 1 + (length % 97)) {
      const records = read(bytes.slice(0, length)) as LogRecord[];
      expect(records.length).toBeLessThanOrEqual(whole.length);
      // To `expect` so much takes ten times as long.
      expect(isDeepStrictEqual(records, whole.slice(0, records.length)), `${length} bytes`).toBe(true);
    }
  });

  it('that was cut off in its first twelve bytes is refused', () => {
    for (let length = 0; length < 12; length++)
      expect(read(bytes.slice(0, length))).toBe('ERR_BLOCKSTEP_BAD_LOG');
  });

  it('with another magic or version is refused, naming it', () => {
    const version = bytes.slice();
    version[8] = 77;
    expect(() => [...readLog(version)]).toThrow(/version 77/);
    const magic = bytes.slice();
    magic[0] = 0x58;
    expect(() => [...readLog(magic)]).toThrow(/"XSTEPLOG"/);
  });

  it('with an unknown record, or a record too short for its kind, is refused', () => {
    const at = recordOffsets(bytes)[1];
    const kind = bytes.slice();
    kind[at] = 200;
    expect(read(kind)).toBe('ERR_BLOCKSTEP_BAD_LOG');
    const view = new DataView(kind.buffer);
    view.setUint32(at, 5, true);
    view.setUint32(at + 4, 4, true);
    expect(read(kind)).toBe('ERR_BLOCKSTEP_BAD_LOG');
  });

  it('with negative counts in an update is refused', () => {
    const payload = Buffer.alloc(16 + 12);
    payload.writeUInt32LE(6, 0);
    payload.writeUInt32LE(20, 4);
    payload.writeUInt32LE(1, 16);
    payload.writeInt32LE(-1, 20);
    expect(read(new Uint8Array(Buffer.concat([bytes.slice(0, 12), payload])))).toBe('ERR_BLOCKSTEP_BAD_LOG');
  });

  it('with any bits flipped is read or refused, and breaks in no other way', () => {
    const random = new Random(5);
    for (let i = 0; i < 400; i++) {
      const damaged = bytes.slice(0, 6000);
      for (let n = 1 + random.below(3); n > 0; n--)
        damaged[random.below(damaged.length)] ^= 1 << random.below(8);
      const records = read(damaged);
      if (typeof records === 'string') expect(records).toBe('ERR_BLOCKSTEP_BAD_LOG');
    }
  });

  it('whose commands do not apply is refused by the replay', () => {
    const view = new DataView(bytes.buffer);
    // A batch is its length, then commands; 1 = open a row, which cannot be done twice.
    const opens = (at: number) =>
      view.getUint32(at, true) === 2 && (view.getUint32(at + 12, true) & 255) === 1;
    const from = recordOffsets(bytes).find(opens) as number;
    const to = from + 8 + view.getUint32(from + 4, true);
    const twice = Buffer.concat([bytes.slice(0, to), bytes.slice(from, to)]);
    expect(codeOf(() => replayCommands(new Uint8Array(twice)))).toBe('ERR_BLOCKSTEP_BAD_LOG');
  });

  it('without its header is refused by both replays', () => {
    const empty = bytes.slice(0, 12);
    expect(codeOf(() => replayInputs(empty))).toBe('ERR_BLOCKSTEP_BAD_LOG');
    expect(codeOf(() => replayCommands(empty))).toBe('ERR_BLOCKSTEP_BAD_LOG');
  });
});

/** Where each record of a log begins. */
function recordOffsets(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const offsets: number[] = [];
  for (let at = 12; at + 8 <= bytes.length; ) {
    offsets.push(at);
    at += 8 + Math.ceil(view.getUint32(at + 4, true) / 4) * 4;
  }
  return offsets;
}
