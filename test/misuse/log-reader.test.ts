// The functions that read logs, with wrong values, cut logs and damaged logs.
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../src/index.js';
import { readLog, replayCommands, replayInputs } from '../../src/replay.js';
import { LOG_MAGIC, LOG_VERSION, RecordKind } from '../../src/scheduler/log/log.js';
import { ScriptedConnector } from '../support/connector/scripted-connector.js';
import { seeded } from '../support/core-bench.js';
import { share } from '../support/share.js';
import { booby, detach, throwingProxy } from './bad-values.js';
import { benchIn, codeOf, errorOf } from './bench.js';

const goodLog = (() => {
  const bytes: number[] = [];
  const log = { write: (part: Uint8Array) => bytes.push(...part) };
  const connector = new ScriptedConnector({
    x: { ext: 4, async: true },
    d: { delayFree: true, delayAbort: true },
  });
  const bench = benchIn('draining', { log, connector });
  const loading = bench.add('x', 5);
  connector.pins?.pin(Int32Array.of(31, 32));
  connector.during = (method) => {
    if (method === 'output') connector.pins?.unpin(Int32Array.of(32));
  };
  bench.scheduler.pause('new');
  bench.step();
  bench.scheduler.resume();
  const grammar = { ready: () => true, acceptTokens: () => true, validateTokens: () => 1 };
  bench.add('g', 5, { grammar });
  bench.scheduler.addChunk('b', { prompt: Int32Array.of(1, 2) });
  bench.step();
  bench.step();
  bench.scheduler.endSession('b');
  bench.schedule();
  bench.scheduler.failStep(bench.plan, { finishedReceiving: [{ handle: loading, step: 7 }] });
  bench.scheduler.fenceTransfers();
  bench.scheduler.resetPrefixCache({ resetRunning: true, resetConnector: true });
  bench.scheduler.abortAll();
  return Uint8Array.from(bytes);
})();

const FUNCTIONS: Record<string, (bytes: Uint8Array) => unknown> = {
  readLog: (bytes) => [...readLog(bytes)],
  replayCommands: (bytes) => replayCommands(bytes),
  replayInputs: (bytes) => replayInputs(bytes).dispose(),
};

/** A log of the one given record, behind the header of a good log. */
function logOf(kind: number, payload: Uint8Array, withHeader = true): Uint8Array {
  const headerEnd = 20 + new DataView(goodLog.buffer).getUint32(16, true);
  const head = goodLog.slice(0, withHeader ? headerEnd + ((4 - (headerEnd % 4)) % 4) : 12);
  const out = new Uint8Array(head.length + 8 + payload.length + ((4 - (payload.length % 4)) % 4));
  out.set(head);
  const view = new DataView(out.buffer);
  view.setUint32(head.length, kind, true);
  view.setUint32(head.length + 4, payload.length, true);
  out.set(payload, head.length + 8);
  return out;
}

const words = (...values: number[]) => new Uint8Array(Int32Array.from(values).buffer);
const text = (value: string) => new TextEncoder().encode(value);
const join = (...parts: Uint8Array[]) => Uint8Array.from(parts.flatMap((part) => [...part]));
const meta = (json: string) =>
  join(words(0, 0, json.length), text(json.padEnd(Math.ceil(json.length / 4) * 4, '\0')));

const connectorSays = (question: string, answer: unknown, handle: unknown = 0) =>
  logOf(RecordKind.connector, text(JSON.stringify({ handle, question, answer })));
const match = { numTokens: 4, async: false, child: 0 };
const lists = { finishedReceiving: [], finishedSending: [], failedReceiving: [], invalidBlocks: [] };
const transfers = (more: object) =>
  logOf(RecordKind.transfers, join(words(0, 0, 0), text(JSON.stringify({ ...lists, ...more }))));
const fence = (child: number) => logOf(RecordKind.fence, new Uint8Array(Float64Array.of(0, child).buffer));

const MALFORMED: Record<string, Uint8Array> = {
  'an unknown kind': logOf(99, words(1)),
  'kind 0': logOf(0, words()),
  'half a command word': logOf(RecordKind.commands, new Uint8Array(2)),
  'half a prompt token': logOf(RecordKind.add, join(meta('{"id":"x","maxTokens":1}'), new Uint8Array(2))),
  'an add whose JSON is null': logOf(RecordKind.add, join(meta('null'), words(1))),
  'an add whose JSON is cut': logOf(RecordKind.add, join(meta('{"id":'), words(1))),
  'an add without a clock': logOf(RecordKind.add, words(1)),
  'an add longer than its record': logOf(RecordKind.add, words(0, 0, 2 ** 30)),
  'a chunk whose JSON is an array': logOf(RecordKind.chunk, join(words(0, 0), meta('[]'), words(1))),
  'a chunk without a handle': logOf(RecordKind.chunk, words(0, 0)),
  'half an end': logOf(RecordKind.end, words(0, 0, 1)),
  'a grammar without an answer': logOf(RecordKind.grammar, words(0, 0, 1)),
  'an unknown question': logOf(RecordKind.grammar, words(0, 0, 3, 1)),
  'replaced drafts beyond the record': logOf(RecordKind.replacedDrafts, words(0, 1000)),
  'half a handle': logOf(RecordKind.abort, words(0, 0, 1)),
  'counts beyond the record': logOf(RecordKind.update, words(0, 0, 1000)),
  'a negative count': logOf(RecordKind.update, words(0, 0, 1, -2, 5)),
  'counts that cancel out': logOf(RecordKind.update, words(0, 0, 2, 3, -2, 5)),
  'a negative count of drafts': logOf(RecordKind.drafts, words(1, -1)),
  'an unknown pause mode': logOf(RecordKind.pause, words(3)),
  'an empty reset': logOf(RecordKind.reset, words()),
  'a hold of null': logOf(RecordKind.hold, join(words(0, 0), text('null'))),
  'a reset of half': logOf(RecordKind.reset, words(1)),
  'a reset of 2': logOf(RecordKind.reset, words(2, 0)),
  'a reset of the connector of 2': logOf(RecordKind.reset, words(0, 2)),
  'a failed step without entries said': logOf(RecordKind.stepFailed, words(0, 0)),
  'an answer that is no JSON': logOf(RecordKind.connector, text('{"handle":0,')),
  'an answer that is null': logOf(RecordKind.connector, text('null')),
  'an answer that is an array': logOf(RecordKind.connector, text('[0,"metadata",true]')),
  'an answer without JSON': logOf(RecordKind.connector, words()),
  'an answer to no question': logOf(RecordKind.connector, text('{"handle":0,"answer":true}')),
  'an answer to an unknown question': connectorSays('matches', true),
  'an answer to a question of every object': connectorSays('toString', true),
  'an answer about no handle': connectorSays('metadata', true, null),
  'an answer about half a handle': connectorSays('metadata', true, 0.5),
  'an answer about a negative handle': connectorSays('metadata', true, -1),
  'metadata that is false': connectorSays('metadata', false),
  'metadata that failed otherwise': connectorSays('metadata', 'threw'),
  'an allocation without an answer': connectorSays('alloc', undefined),
  'a match that is a number': connectorSays('match', 4),
  'a match without tokens': connectorSays('match', { ...match, numTokens: undefined }),
  'a match of half a token': connectorSays('match', { ...match, numTokens: 0.5 }),
  'a match of less than nothing': connectorSays('match', { ...match, numTokens: -4 }),
  'a match of nothing that comes later': connectorSays('match', { ...match, numTokens: 0, async: true }),
  'a match that may come later': connectorSays('match', { ...match, async: 1 }),
  'a match of no child': connectorSays('match', { ...match, child: null }),
  'an end that says nothing': connectorSays('finished', {}),
  'an end that may be delayed': connectorSays('finished', { delayFree: 'yes', children: [0] }),
  'an end that nobody reports': connectorSays('finished', { delayFree: true, children: [] }),
  'an end that half a child reports': connectorSays('finished', { delayFree: true, children: [0.5] }),
  'an end without children': connectorSays('finished', { delayFree: false }),
  'an end whose params are text': connectorSays('finished', {
    delayFree: false,
    children: [],
    transferParams: 'here',
  }),
  'an end whose params are null': connectorSays('finished', {
    delayFree: false,
    children: [],
    transferParams: null,
  }),
  'a delivery of a number': connectorSays('delivery', { answer: 1 }),
  'a delivery that is true': connectorSays('delivery', true),
  'a reset that is text': connectorSays('reset', { answer: 'yes' }),
  'reports of half a clock': logOf(RecordKind.transfers, words(0)),
  'reports with a third flag': logOf(RecordKind.transfers, join(words(0, 0, 2), text(JSON.stringify(lists)))),
  'reports that are null': logOf(RecordKind.transfers, join(words(0, 0, 0), text('null'))),
  'reports without a list': transfers({ finishedSending: undefined }),
  'reports that are no list': transfers({ finishedReceiving: { handle: 1, child: 0, rank: 0 } }),
  'a report of nothing': transfers({ finishedSending: [null] }),
  'a report without a rank': transfers({ finishedSending: [{ handle: 1, child: 0 }] }),
  'a report of half a step': transfers({ failedReceiving: [{ handle: 1, child: 0, rank: 0, step: 0.5 }] }),
  'a report of a negative child': transfers({ failedReceiving: [{ handle: 1, child: -1, rank: 0 }] }),
  'an invalid block without a number': transfers({ invalidBlocks: [{ handle: 1 }] }),
  'an invalid block of half a handle': transfers({ invalidBlocks: [{ block: 1, handle: 0.5 }] }),
  'half a fence': logOf(RecordKind.fence, words(0, 0)),
  'a fence of half a child': fence(0.5),
  'a fence of child -2': fence(-2),
  'a fence of no number': fence(Number.NaN),
  'pins that are neither': logOf(RecordKind.pins, words(2, 1)),
  'pins of half a block': logOf(RecordKind.pins, new Uint8Array(6)),
  'empty pins': logOf(RecordKind.pins, words()),
  'no header': logOf(RecordKind.schedule, words(0, 0), false),
  'a header that is null': logOf(RecordKind.header, text('null'), false),
  'a header that is an array': logOf(RecordKind.header, text('[]'), false),
  'another version': join(text(LOG_MAGIC), words(LOG_VERSION + 1)),
  'no version': text(LOG_MAGIC),
  'another magic': join(text('BSTEPLOX'), words(LOG_VERSION)),
  nothing: new Uint8Array(0),
};

describe.each(Object.keys(FUNCTIONS))('%s', (name) => {
  const read = FUNCTIONS[name];

  it('takes the log as every kind of byte array that files come as', () => {
    const expected = JSON.stringify(read(goodLog), bigintToString);
    const pool = Buffer.alloc(goodLog.length + 13);
    pool.set(goodLog, 13);
    expect(JSON.stringify(read(Buffer.from(goodLog)), bigintToString)).toBe(expected);
    expect(JSON.stringify(read(pool.subarray(13)), bigintToString)).toBe(expected);
    expect(
      JSON.stringify(read(new Uint8Array(pool.buffer, pool.byteOffset + 13, goodLog.length)), bigintToString),
    ).toBe(expected);
    expect(JSON.stringify(read(booby(Uint8Array.from(goodLog))), bigintToString)).toBe(expected);
  });

  it('refuses what is no byte array', () => {
    const values = [
      undefined,
      null,
      1,
      'BSTEPLOG',
      1n,
      Symbol('s'),
      {},
      [],
      () => goodLog,
      throwingProxy({}),
    ];
    const arrays = [goodLog.buffer, new DataView(goodLog.buffer), new Int8Array(64), new Uint32Array(16)];
    for (const value of [...values, ...arrays, Object.create(Uint8Array.prototype), new Proxy(goodLog, {})]) {
      expect(codeOf(() => read(value as Uint8Array))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    }
    expect(codeOf(() => read(detach(Uint8Array.from(goodLog))))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it.each(Object.keys(MALFORMED))('refuses a log with %s', (what) => {
    const error = errorOf(() => read(MALFORMED[what])) as BlockstepError;
    expect(error).toBeInstanceOf(BlockstepError);
    expect(error.code).toBe('ERR_BLOCKSTEP_BAD_LOG');
    expect(error.message.length).toBeLessThan(400);
    if (name === 'readLog') expect(error.message).toMatch(/ at byte \d+$/);
  });

  it('reads a log that was cut anywhere up to the cut, or says that it is none', () => {
    const whole = [...readLog(goodLog)].length;
    for (let length = 0; length < goodLog.length; length += share(17, 3)) {
      const part = goodLog.slice(0, length);
      try {
        const records = read(part);
        if (Array.isArray(records)) expect(records.length).toBeLessThanOrEqual(whole);
      } catch (error) {
        expect(error).toBeInstanceOf(BlockstepError);
      }
    }
  });

  it('throws nothing but BlockstepErrors at damaged logs', () => {
    const random = seeded(7);
    const found = new Set<string>();
    for (let round = 0; round < 400; round++) {
      const damaged = Uint8Array.from(goodLog);
      for (let i = random(3); i >= 0; i--) {
        const at = 12 + random(damaged.length - 12);
        damaged[at] = random(3) === 0 ? 255 : random(256);
      }
      try {
        read(damaged);
      } catch (error) {
        if (!(error instanceof BlockstepError)) found.add(String(error));
      }
    }
    expect([...found]).toEqual([]);
  });
});

it('names the byte at which the content of a record is wrong', () => {
  const start = logOf(RecordKind.pins, words()).length;
  const badFlag = logOf(RecordKind.reset, words(0, 2));
  const logs: [Uint8Array, number][] = [
    [connectorSays('metadata', false), 0],
    [transfers({ invalidBlocks: [{}] }), 12],
    [fence(-2), 8],
    [badFlag, 4],
  ];
  for (const [log, at] of logs) {
    expect((errorOf(() => [...readLog(log)]) as Error).message).toMatch(
      new RegExp(` at byte ${start + at}$`),
    );
  }
});

it('a log that is given away while it is read does not look like one that ends there', () => {
  const log = Uint8Array.from(goodLog);
  const records = readLog(log);
  expect(records.next().value?.kind).toBe('header');
  detach(log);
  expect(codeOf(() => records.next())).toBe('ERR_BLOCKSTEP_BAD_ARG');
  const replayed = Uint8Array.from(goodLog);
  expect(codeOf(() => replayInputs(replayed, () => detach(replayed)))).toBe('ERR_BLOCKSTEP_BAD_ARG');
});

function bigintToString(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value;
}
