// A recorded log replays to the same decisions, with a connector too; differing and damaged logs
// are distinguished.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { checkLog, runLogAgain } from '../../src/cli/log/log-check.js';
import type { LogReport } from '../../src/cli/log/log-command.js';
import { callEnds } from '../../src/cli/log/log-records.js';
import { runProgram } from '../../src/cli/program.js';
import type { Report } from '../../src/cli/replay/report/report.js';
import { RecordKind } from '../../src/scheduler/log/log.js';
import { ConnectedLife } from '../support/connector/connected-life.js';
import { frames } from '../support/recorded-log.js';
import { share, thinned } from '../support/share.js';
import { useTempFiles } from '../support/temp-file.js';
import { run } from './run-program.js';

const write = useTempFiles();
let logs = 0;

/** Records a replay and gives the log's path, its bytes, and the replay's report. */
async function record(...args: string[]): Promise<{ path: string; bytes: Uint8Array; report: Report }> {
  const place = join(dirname(write('x', '')), `log-${logs++}`);
  mkdirSync(place);
  const path = join(place, 'run.log');
  const { code, stdout, stderr } = await run(['replay', '--json', '--record', path, ...args]);
  expect([code, stderr]).toEqual([0, `written to ${path}\n`]);
  expect(readdirSync(place)).toEqual(['run.log']);
  return { path, bytes: new Uint8Array(readFileSync(path)), report: JSON.parse(stdout) as Report };
}

async function again(path: string): Promise<{ code: number; report: LogReport }> {
  const { code, stdout, stderr } = await run(['replay', '--json', '--log', path]);
  expect(stderr).toBe('');
  return { code, report: JSON.parse(stdout) as LogReport };
}

const SMALL = ['--requests', '60', '--num-blocks', '900', '--max-num-seqs', '8'];

describe('a recorded log', () => {
  const runs: readonly (readonly [readonly string[]])[] = [
    [[]],
    [['--pipeline-depth', '2']],
    [['--pipeline-depth', '3', '--abort-rate', '0.3']],
    [['--no-reserve-full-isl', '--request-rate', '500', '--num-blocks', '400', '--max-num-seqs', '64']],
    [['--num-speculative-tokens', '2', '--speculative-method', 'eagle']],
    [['--no-enable-prefix-caching', '--policy', 'priority']],
  ];
  it.each(thinned(runs, 1))('of a replay with %j leads to the same decisions', async (args) => {
    const { path, report } = await record(...SMALL, ...args);
    const plain = await run(['replay', '--json', ...SMALL, ...args]);
    expect(report.digest).toBe((JSON.parse(plain.stdout) as Report).digest);
    const { code, report: found } = await again(path);
    expect(code).toBe(0);
    expect(found).toMatchObject({
      log: path,
      // A request that is given up while it waits outside never arrives at the scheduler.
      requests: report.requests.aborted > 0 ? expect.any(Number) : report.requests.total,
      steps: report.steps,
      identical: true,
      difference: null,
      recordedDigest: report.digest,
      digest: report.digest,
    });
    expect(found.options).toMatchObject({ maxNumSeqs: report.options['maxNumSeqs'] });
  });

  it('is whole when the replay was interrupted', async () => {
    const path = write('interrupted.log', '');
    const signal = AbortSignal.abort();
    const { code, stdout } = await run(['replay', '--json', '--requests', '20000', '--record', path], {
      signal,
    });
    expect(code).toBe(130);
    const { code: codeAgain, report } = await again(path);
    expect([codeAgain, report.digest]).toEqual([0, (JSON.parse(stdout) as Report).digest]);
  });

  it('lets an interrupt end the process, since nothing would listen to it meanwhile', async () => {
    const { path } = await record(...SMALL);
    let passed = 0;
    const io = {
      stdout: { write: () => true },
      stderr: new PassThrough(),
      again: '',
      signal: new AbortController().signal,
    };
    const passInterrupts = (): void => void passed++;
    expect(await runProgram(['replay', '--json', '--log', path], { ...io, passInterrupts })).toBe(0);
    expect(passed).toBe(1);
    expect(await runProgram(['replay', '--json', ...SMALL], { ...io, passInterrupts })).toBe(0);
    expect(passed).toBe(1);
  });

  it('prints a table', async () => {
    const { path } = await record(...SMALL);
    const { code, stdout } = await run(['replay', '--log', path]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/│ decisions +│ identical +│/);
  });
});

describe('a log with a connector', () => {
  function live(seed: number): Uint8Array {
    const parts: Buffer[] = [];
    const log = { write: (bytes: Uint8Array) => parts.push(Buffer.from(bytes)) };
    new ConnectedLife(seed, log, () => {}).run(150);
    return new Uint8Array(Buffer.concat(parts));
  }

  it.each(share([0], [0, 1, 2], [0, 1, 2, 3, 4, 5]))('leads to the same decisions: seed %i', async (seed) => {
    const { code, report } = await again(write(`connected-${seed}.log`, Buffer.from(live(seed))));
    expect(code).toBe(0);
    expect(report).toMatchObject({ identical: true, difference: null, digest: report.recordedDigest });
    expect(report.steps).toBeGreaterThan(5);
    expect(report.options['connector']).toHaveProperty('protection');
  });

  it('differs, or is refused, where the connector is said to have answered otherwise', async () => {
    const bytes = Buffer.from(live(1));
    const edits: [string, string][] = [
      ['"delayFree":true', '"delayFree":fals'],
      ['"async":true,', '"async":null,'],
      ['"question":"alloc","answer":true', '"question":"alloc","answer":fals'],
    ];
    for (const [from, to] of edits) {
      const damaged = Buffer.from(bytes);
      damaged.write(to, damaged.indexOf(from));
      const { code } = await run(['replay', '--json', '--log', write('answers.log', damaged)]);
      expect(code).toBe(2);
    }
    const handle = Buffer.from(bytes);
    const at = frames(bytes).find(({ kind, at: from, end }) => {
      return kind === RecordKind.connector && bytes.subarray(from, end).includes('"question":"match"');
    })!.at;
    handle.write('9', handle.indexOf('"handle":', at) + 9);
    const { code, report } = await again(write('handle.log', handle));
    expect(code).toBe(3);
    expect(report.difference).toMatchObject({ field: 'error', expected: 'none' });
    expect(report.difference!.found).toContain('was not recorded here');
    expect(report.difference!.byte).toBeGreaterThan(at);
  });
});

describe('a log whose decisions differ', () => {
  /** A log with another token in the update that is `share` of the way into it. */
  async function withOtherToken(share: number): Promise<{ path: string; bytes: Uint8Array; at: number }> {
    // Nothing is evicted, so published blocks stay.
    const { bytes } = await record('--requests', '60', '--max-num-seqs', '8');
    const view = new DataView(bytes.buffer);
    // Clock, number of entries, counts, then tokens: the record of an update with at least one
    // entry that has a token.
    const updates = frames(bytes).filter(({ kind, at }) => {
      if (kind !== RecordKind.update) return false;
      const entries = view.getUint32(at + 16, true);
      return entries > 0 && view.getInt32(at + 20, true) === 1;
    });
    const { at } = updates[Math.floor(share * updates.length)];
    const entries = view.getUint32(at + 16, true);
    const token = at + 20 + 4 * entries;
    view.setInt32(token, view.getInt32(token, true) ^ 1, true);
    return { path: write(`token-${share}.log`, Buffer.from(bytes)), bytes, at };
  }

  it.each([0.1, 0.5, 0.8])(
    'is told apart, %f of the way into it, at its first call that differs',
    async (share) => {
      const { path, bytes, at } = await withOtherToken(share);
      const { code, report } = await again(path);
      expect([code, report.identical]).toEqual([3, false]);
      const { step, byte, field, expected, found } = report.difference!;
      expect(byte).toBeGreaterThan(at);
      expect(step).toBeGreaterThan(0);
      expect(field).toMatch(/^digest/);
      expect(expected).not.toBe(found);
      // Up to the call before there is none.
      const ends = callEnds(bytes);
      const place = ends.indexOf(byte);
      expect(place).toBeGreaterThan(0);
      const difference = (end: number) => runLogAgain(checkLog(bytes.subarray(0, end))).difference;
      expect(difference(byte)).toEqual(report.difference);
      for (const end of ends.slice(Math.max(0, place - 5), place)) expect(difference(end)).toBe(null);
      // And steps are counted as the log does.
      const schedules = frames(bytes).filter(({ kind, end }) => kind === RecordKind.schedule && end < byte);
      expect(step).toBe(schedules.length - 1);
    },
  );

  it('says so in a table', async () => {
    const { path } = await withOtherToken(0.3);
    const { code, stdout } = await run(['replay', '--log', path]);
    expect(code).toBe(3);
    expect(stdout).toMatch(/│ decisions +│ DIFFERENT +│/);
    for (const label of ['first difference', 'field', 'expected', 'found'])
      expect(stdout).toContain(`│ ${label} `);
  });

  it('names the requests of a step where their number differs', async () => {
    const { bytes } = await record(...SMALL, '--request-rate', '1000');
    const text = Buffer.from(bytes);
    const at = text.indexOf('"maxNumSeqs":8');
    text.write('"maxNumSeqs":7', at);
    const { code, report } = await again(write('seqs.log', text));
    expect(code).toBe(3);
    expect(report.difference).toMatchObject({ field: 'requests of the step', expected: '8', found: '7' });
  });

  it('names the error when an input is refused', async () => {
    const { bytes } = await record(...SMALL);
    const { at, end } = frames(bytes).find(({ kind }) => kind === RecordKind.add)!;
    const twice = Buffer.concat([bytes.subarray(0, end), bytes.subarray(at, end), bytes.subarray(end)]);
    const { code, report } = await again(write('twice.log', twice));
    expect(code).toBe(3);
    expect(report.difference).toMatchObject({ step: -1, field: 'error', expected: 'none' });
    expect(report.difference!.found).toContain('ERR_BLOCKSTEP_DUPLICATE_ID');
  });
});

describe('a log that is none', () => {
  async function refused(bytes: Uint8Array | string): Promise<string> {
    const { code, stdout, stderr } = await run(['replay', '--log', write('bad.log', Buffer.from(bytes))]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^ERR_BLOCKSTEP_BAD_LOG: .*byte \d+/);
    return stderr;
  }

  it('is refused: empty, of another kind, or of another version', async () => {
    await refused('');
    await refused('{"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[1]}\n');
    const { bytes } = await record(...SMALL);
    await refused(bytes.subarray(0, 12));
    const version = bytes.slice();
    version[8] = 99;
    expect(await refused(version)).toContain('version 99');
  });

  it('is refused where it was cut off, and says how much of it is whole', async () => {
    const { bytes } = await record(...SMALL);
    const all = frames(bytes);
    for (const { at, end } of [all[0], all[1], all[Math.floor(all.length / 2)], all[all.length - 1]]) {
      for (const length of [at + 1, at + 5, at + 9, end - 1]) {
        const message = await refused(bytes.subarray(0, length));
        if (at === 12) continue;
        expect(message).toContain(`the record at byte ${at} ends`);
        expect(message).toContain(`its first ${at} bytes are a log that can be replayed`);
      }
      if (at === 12) continue;
      expect(
        (await run(['replay', '--log', write('whole.log', Buffer.from(bytes.subarray(0, at)))])).code,
      ).toBe(0);
    }
  });

  it('is refused where its commands do not apply', async () => {
    const { bytes } = await record(...SMALL);
    const commands = frames(bytes).filter(({ kind }) => kind === RecordKind.commands);
    const { at, end } = commands[5];
    const twice = Buffer.concat([bytes.subarray(0, end), bytes.subarray(at, end), bytes.subarray(end)]);
    const message = await refused(twice);
    expect(message).toContain('of the log does not apply');
    expect(message).toContain(`from byte ${end} on`);
  });

  it('is refused where its header makes no scheduler', async () => {
    const { bytes } = await record(...SMALL);
    const text = Buffer.from(bytes);
    text.write('"policy":"fifo"', text.indexOf('"policy":"fcfs"'));
    expect(await refused(text)).toContain('policy must be one of fcfs, priority');
  });

  it('with any bits flipped is refused, differs or is the same, and breaks in no other way', async () => {
    const { bytes } = await record('--requests', '6');
    const codes = new Set<number>();
    for (let i = 0; i < share(20, 40, 120); i++) {
      const damaged = Buffer.from(bytes);
      damaged[(i * 7919) % damaged.length] ^= 1 << (i % 8);
      const { code, stderr } = await run(['replay', '--json', '--log', write('flipped.log', damaged)]);
      if (code === 2) expect(stderr).toMatch(/^ERR_BLOCKSTEP_BAD_LOG: .*byte \d+/);
      codes.add(code);
    }
    expect([...codes].filter((code) => ![0, 2, 3].includes(code))).toEqual([]);
  });

  it.each([
    ['a missing file', () => '/no/such/file.log', 'ENOENT'],
    ['a folder', () => dirname(write('x', '')), 'EISDIR'],
    ['nothing', () => '', 'ENOENT'],
  ])('is refused: %s', async (_, path, why) => {
    const { code, stdout, stderr } = await run(['replay', '--log', path()]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^ERR_BLOCKSTEP_BAD_FILE: .*: cannot be read: /);
    expect(stderr).toContain(why);
  });

  it.each([
    [['trace.jsonl'], '--log cannot be used with a FILE'],
    [['--requests', '3'], '--requests cannot be used with --log'],
    [['--num-blocks', '300'], '--num-blocks cannot be used with --log'],
    [['--no-enable-prefix-caching'], 'cannot be used with --log'],
    [['--report', 'a.html'], '--report cannot be used with --log'],
    [['--record', 'a.log'], '--record cannot be used with --log'],
  ])('goes with no other option: %j', async (args, message) => {
    const { code, stdout, stderr } = await run(['replay', '--log', 'run.log', ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^ERR_BLOCKSTEP_BAD_ARG: /);
    expect(stderr).toContain(message);
  });
});
