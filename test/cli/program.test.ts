// The command line: output, `--help`, wrong options, progress, exit codes; the scheduler flags; the
// process as a whole.
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import type { Report } from '../../src/cli/replay/report/report.js';
import { resolveOptions } from '../../src/scheduler/options/resolve-options.js';
import { SINGLE_RULES } from '../../src/scheduler/options/rules.js';
import { useTempFiles } from '../support/temp-file.js';
import { replay, run } from './run-program.js';

const write = useTempFiles();
const GOOD = '{"timestamp":0,"input_length":20,"output_length":3,"hash_ids":[1]}\n';
const BAD = '{"timestamp":0,"input_length":"x","output_length":3,"hash_ids":[1]}\n';

/** Characters of the longest line. */
function widest(text: string): number {
  return Math.max(...text.split('\n').map((line) => line.length));
}

describe('the command line', () => {
  it('prints a table', async () => {
    const { code, stdout } = await run(['replay', '--requests', '20']);
    expect(code).toBe(0);
    for (const label of [
      'requests',
      'tokens',
      'throughput (virtual)',
      'prefix cache',
      'KV cache peak',
      'time to first token, ms (virtual)',
      'end-to-end latency, ms (virtual)',
      'scheduler step, us (real)',
      'digest',
    ]) {
      expect(stdout).toContain(`│ ${label} `);
    }
    expect(stdout).toContain('finished 20, aborted 0, refused 0');
    expect(stdout).not.toMatch(/INCOMPLETE|OVERLOAD|NaN|undefined|null/);
    expect(widest(stdout)).toBeLessThanOrEqual(80);
  });

  it('says first what it replays, and last what to try next', async () => {
    const { stderr } = await run(['replay', '--requests', '20']);
    const [first, ...rest] = stderr.split('\n');
    expect(first).toBe(
      'Replaying 20 generated requests through the scheduler in virtual time: no model runs, and no GPU.',
    );
    const steps = rest.filter((line) => line.startsWith('  ')).map((line) => line.trim().split(/ {2,}/)[0]);
    expect(steps).toEqual([
      'npx blockstep replay --report replay.html',
      'npx blockstep replay --request-rate 60',
      'npx blockstep replay --help',
    ]);
    // The second one behaves as documented.
    const overload = await run(['replay', '--request-rate', '60']);
    expect(overload.stdout).toMatch(/^OVERLOAD: the load exceeds the capacity/);
    expect(widest(overload.stdout)).toBeLessThanOrEqual(80);
    expect(overload.stderr).not.toContain('--request-rate 60');
  });

  it('speaks of a trace by its name, and proposes nothing', async () => {
    const { code, stderr } = await run(['replay', write('good.jsonl', GOOD)]);
    expect([code, stderr]).toEqual([
      0,
      'Replaying 1 request of good.jsonl through the scheduler in virtual time: no model runs, and no GPU.\n',
    ]);
  });

  it('proposes nothing after a replay that was interrupted', async () => {
    const { stderr } = await run(['replay', '--requests', '50000'], { signal: AbortSignal.abort() });
    expect(stderr).not.toContain('try next');
  });

  it('prints nothing but one line of JSON with --json', async () => {
    const { stdout, stderr } = await run(['replay', '--json', '--generate', '--requests', '5']);
    expect(stdout.trimEnd().split('\n')).toHaveLength(1);
    expect(stderr).toBe('');
    expect(Object.keys(JSON.parse(stdout) as Report)).toEqual([
      'incomplete',
      'workload',
      'options',
      'requests',
      'load',
      'tokens',
      'throughput',
      'prefixCache',
      'kvCache',
      'preemptions',
      'evictions',
      'anomalies',
      'ttftMs',
      'tpotMs',
      'e2eMs',
      'steps',
      'extrapolated',
      'schedulerStepUs',
      'virtualSeconds',
      'wallSeconds',
      'digest',
    ]);
  });

  it('shows progress on a terminal only, and on stderr only', async () => {
    const { code, stdout, stderr } = await run(['replay', '--json', '--requests', '500'], { isTTY: true });
    expect(code).toBe(0);
    expect(stderr).toMatch(/500 of 500 requests \| [\d,]+ steps \| [\d.]+ s virtual/);
    expect(() => JSON.parse(stdout) as unknown).not.toThrow();
  });

  it('refuses a malformed trace before anything runs', async () => {
    const file = write('bad.jsonl', GOOD + BAD);
    const { code, stdout, stderr } = await run(['replay', file]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toBe(
      `ERR_BLOCKSTEP_BAD_TRACE: ${file}:2:input_length: expected an integer >= 1, got "x"\n`,
    );
  });

  it('skips and counts malformed lines with --skip-bad', async () => {
    const file = write('skip.jsonl', GOOD + BAD + GOOD);
    const { code, stdout, stderr } = await run(['replay', file, '--skip-bad']);
    expect(code).toBe(0);
    expect(stderr).toContain(
      `skipped 1 malformed line, the first: ${file}:2:input_length: expected an integer >= 1, got "x"\n`,
    );
    expect(stdout).toContain('1 malformed line skipped');
    expect((await replay(file, '--skip-bad')).workload).toMatchObject({ requests: 2, skippedLines: 1 });
  });

  it.each([
    [
      ['replay', '--num-blocks', 'many'],
      "option '--num-blocks <n>' argument 'many' is invalid. Expected an integer.",
    ],
    [['replay', '--num-blocks', '1'], 'ERR_BLOCKSTEP_BAD_ARG: numBlocks must be an integer from 2'],
    [['replay', '--speed-up', '0'], "argument '0' is invalid. Expected a number > 0."],
    [['replay', '--speed-up', ''], "argument '' is invalid. Expected a number > 0."],
    [['replay', '--abort-rate', '1.1'], 'Expected a number from 0 to 1.'],
    [['replay', '--watermark', '1'], 'Expected a number from 0 to less than 1.'],
    [
      ['replay', '--like', '0.27'],
      "argument '0.27' is invalid. Allowed choices are vllm-0.22, vllm-0.27, 28be48fa, 017e9f444.",
    ],
    [['replay', '--draft-slots', '65'], 'draftSlots must be an integer from 0 to 64, got 65'],
    [['replay', '--requests', '0'], 'Expected an integer >= 1.'],
    [['replay', '--seed', '4294967296'], 'Expected an integer from 0 to 2^32 - 1.'],
    [['replay', '--step-overhead-ms', '-1'], 'Expected a number >= 0.'],
    [['replay', '--hash-seed', `0x1${'0'.repeat(32)}`], 'Expected a number from 0 to 2^128 - 1'],
    [['replay', '--policy', 'lifo'], 'Allowed choices are fcfs, priority.'],
    [
      ['replay', '--pipeline-depth', '4'],
      'ERR_BLOCKSTEP_BAD_ARG: pipelineDepth must be an integer from 1 to 3',
    ],
    [['replay', '--no-such-flag'], "unknown option '--no-such-flag'"],
    [['replay', 'a.jsonl', 'b.jsonl'], 'too many arguments'],
    [['replay', 'a.jsonl', '--generate'], 'ERR_BLOCKSTEP_BAD_ARG: --generate cannot be used with a FILE'],
    [
      ['replay', 'a.jsonl', '--request-rate', '3'],
      'ERR_BLOCKSTEP_BAD_ARG: --request-rate cannot be used with a FILE',
    ],
    [['replay', '--skip-bad'], 'ERR_BLOCKSTEP_BAD_ARG: --skip-bad needs a FILE'],
    [['replay', '/no/such/file'], 'ERR_BLOCKSTEP_BAD_FILE: /no/such/file: cannot be read: ENOENT'],
    [['reply'], "unknown command 'reply'"],
    [[], 'Usage: blockstep'],
  ])('ends %j with exit code 2', async (args, message) => {
    const { code, stdout, stderr } = await run(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });

  it('explains itself on stdout', async () => {
    const help = await run(['replay', '--help']);
    expect([help.code, help.stderr]).toEqual([0, '']);
    expect(help.stdout).toContain('Exit codes: 0 done');
    expect(widest(help.stdout)).toBeLessThanOrEqual(80);
    expect((await run(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe('scheduler flags', () => {
  it('exist for every option of the scheduler', async () => {
    const { options } = await replay('--requests', '1');
    // A replay has no connector, no borrowing adapter, and nobody to whom plans tell of blocks.
    const {
      now,
      log,
      placement,
      deadlines,
      connector,
      borrower,
      loadFailurePolicy,
      reclaim,
      kvEvents,
      reportBlocks,
      ...config
    } = resolveOptions({ numBlocks: 2 });
    expect(Object.keys(options)).toEqual(expect.arrayContaining(Object.keys(config)));
    const { stdout } = await run(['replay', '--help']);
    expect(stdout).toContain('--like <version>');
    for (const rule of SINGLE_RULES) {
      const flag = rule.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      expect(stdout).not.toMatch(new RegExp(`--(\\[no-\\])?${flag}\\b`));
      Reflect.deleteProperty(config, rule);
    }
    for (const key of Object.keys(config)) {
      const flag = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      expect(stdout).toMatch(
        key === 'deviations' ? '--no-deviations' : new RegExp(`--(\\[no-\\])?${flag}\\b`),
      );
    }
  });

  it('reach the scheduler', async () => {
    const values = {
      numBlocks: 5000,
      blockSize: 32,
      maxNumSeqs: 7,
      maxNumBatchedTokens: 100_000,
      maxModelLen: 90_000,
      policy: 'priority',
      longPrefillTokenThreshold: 400,
      pipelineDepth: 2,
      numSpeculativeTokens: 2,
      speculativeMethod: 'eagle',
      maxLoras: 3,
      numRows: 9,
    };
    const flags = Object.entries(values).flatMap(([key, value]) => [
      `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      String(value),
    ]);
    const { options } = await replay('--requests', '3', '--strict', '--no-enable-chunked-prefill', ...flags);
    expect(options).toMatchObject({
      ...values,
      strict: true,
      enableChunkedPrefill: false,
      enablePrefixCaching: true,
    });
  });

  it.each(['--no-reserve-full-isl', '--no-scheduler-reserve-full-isl'])('know %s', async (flag) => {
    expect((await replay('--requests', '1', flag)).options['reserveFullIsl']).toBe(false);
  });

  it('take a hash seed of up to 128 bits', async () => {
    const seed = async (text: string): Promise<unknown> =>
      (await replay('--requests', '1', '--hash-seed', text)).options['hashSeed'];
    expect(await seed('258')).toBe(`0201${'00'.repeat(14)}`);
    expect(await seed(`0x${'f'.repeat(32)}`)).toBe('ff'.repeat(16));
  });

  it('turn deviations off', async () => {
    const { options } = await replay('--requests', '1', '--no-deviations');
    expect(Object.values(options['deviations'] as object)).not.toContain(true);
  });
});

const MAIN = scriptArguments(import.meta.url, '../../src/cli/main');

/** Starts the command in a process of its own. */
function start(...args: string[]): ChildProcess {
  return spawn(process.execPath, [...MAIN, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** Waits for its end. */
async function finish(child: ChildProcess): Promise<{ code: number | null; stdout: string }> {
  let stdout = '';
  child.stdout!.on('data', (bytes) => {
    stdout += bytes;
  });
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, stdout };
}

describe('the process', () => {
  it('prints the report and ends by itself', async () => {
    const { code, stdout } = await finish(start('replay', '--generate', '--requests', '50', '--json'));
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as Report).requests.finished).toBe(50);
  });

  it('ends in good order when it is interrupted', async () => {
    // An interrupt that comes before the process listens kills it: then it gets more time.
    for (const waitMs of [500, 2000, 6000, 18_000]) {
      const child = start('replay', '--json', '--requests', '500000', '--request-rate', '1');
      const ended = finish(child);
      await setTimeout(waitMs);
      child.kill('SIGINT');
      const { code, stdout } = await ended;
      if (code === null) continue;
      expect(code).toBe(130);
      expect((JSON.parse(stdout) as Report).incomplete).toBe(true);
      return;
    }
    expect.unreachable('the process never came to listen for interrupts');
  });
});
