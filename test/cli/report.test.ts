import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { Report } from '../../src/cli/report.js';
import { commandLine } from '../../src/cli/shell.js';
import { run } from './run-program.js';
import { useTempFiles } from './temp-file.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const write = useTempFiles();
let folders = 0;

/** A new empty folder. */
function folder(): string {
  const path = join(dirname(write('x', '')), `folder-${folders++}`);
  mkdirSync(path);
  return path;
}

/** A data block of a page. */
function block<T>(page: string, id: string): T {
  const [, json] = new RegExp(`<script type="application/json" id="${id}">(.*?)</script>`).exec(page) ?? [];
  return JSON.parse(json) as T;
}

interface Drawn {
  id: string;
  option: { baseOption: { dataset: { source: (number | null)[][] } } };
}

const SMALL = ['replay', '--json', '--requests', '200', '--num-blocks', '1500', '--request-rate', '80'];

describe('a page of a replay', () => {
  it('is written beside what is printed, and holds the same', async () => {
    const place = folder();
    const path = join(place, 'page.html');
    const { code, stdout, stderr } = await run([...SMALL, '--report', path]);
    expect([code, stderr]).toEqual([0, `written to ${path}\n`]);
    expect(readdirSync(place)).toEqual(['page.html']);
    const page = readFileSync(path, 'utf8');
    expect(block<{ report: Report }>(page, 'report').report).toEqual(JSON.parse(stdout));
    expect(page).toContain(commandLine(['blockstep', ...SMALL, '--report', path]));
    expect(page).toContain('Licensed to the Apache Software Foundation');
    expect(page).toContain('Copyright 2010-2016 Mike Bostock');
    expect(page).not.toContain('# sourceMappingURL');
    const markup = page.replace(/<script[^>]*>.*?<\/script>/gs, '');
    expect(markup).not.toMatch(/<link|<img|<iframe|@import|url\(| src=| href=/);
  });

  it('says that recording counts into the time of a step, if it does', async () => {
    const place = folder();
    const path = join(place, 'page.html');
    await run([...SMALL, '--report', path]);
    expect(readFileSync(path, 'utf8')).not.toContain('Recording the log is part of it');
    await run([...SMALL, '--report', path, '--record', join(place, 'run.log')]);
    expect(readFileSync(path, 'utf8')).toContain('Recording the log is part of it');
  });

  it('changes no decision, and draws the same for the same options', async () => {
    const drawn: Drawn[][] = [];
    for (let i = 0; i < 2; i++) {
      const path = join(folder(), 'page.html');
      const { stdout } = await run([...SMALL, '--report', path]);
      const plain = await run(SMALL);
      expect((JSON.parse(stdout) as Report).digest).toBe((JSON.parse(plain.stdout) as Report).digest);
      const charts = block<Drawn[]>(readFileSync(path, 'utf8'), 'charts');
      drawn.push(charts.filter(({ id }) => !id.startsWith('step')));
    }
    expect(drawn[0]).toHaveLength(6);
    expect(drawn[0]).toEqual(drawn[1]);
  });

  it('draws in the end what the report sums up', async () => {
    const path = join(folder(), 'page.html');
    const { stdout } = await run([...SMALL, '--report', path]);
    const report = JSON.parse(stdout) as Report;
    const charts = block<Drawn[]>(readFileSync(path, 'utf8'), 'charts');
    const rows = (id: string) => charts.find((chart) => chart.id === id)!.option.baseOption.dataset.source;
    const sum = (column: (number | null)[]): number => column.reduce<number>((a, b) => a + (b ?? 0), 0);
    for (const [id, of] of [
      ['ttft', report.ttftMs],
      ['tpot', report.tpotMs],
      ['step', report.schedulerStepUs],
    ] as const) {
      expect(sum(rows(id).map((row) => row[3]))).toBe(of.count);
    }
    // Columns: from, to, middle, then smallest, mean, largest.
    expect(Math.max(...rows('running').map((row) => row[5] ?? 0))).toBeLessThanOrEqual(256);
    expect(Math.max(...rows('kv-usage').map((row) => row[5] ?? 0))).toBeGreaterThan(0.9);
    expect(rows('hit-rate').at(-1)![8]).toBeCloseTo(report.prefixCache.hitRate, 3);
    const page = readFileSync(path, 'utf8');
    const [, mean] = /at the time<\/th><td>.*?<\/td><td><data value="([\d.]+)"/.exec(page) ?? [];
    expect(Number(mean)).toBeCloseTo(report.prefixCache.hitRate, 12);
    const slowest = Math.max(...rows('step-over-time').map((row) => row[5] ?? 0));
    expect(slowest / report.schedulerStepUs.max!).toBeCloseTo(1, 3);
    const waiting = rows('waiting').map((row) => row[5] ?? 0);
    expect(Math.max(...waiting)).toBeGreaterThan(20);
    expect(waiting.at(-1)).toBe(0);
  });

  it('shows that nothing runs between two arrivals', async () => {
    const rows = [0, 60_000].map((timestamp) =>
      JSON.stringify({ timestamp, input_length: 900, output_length: 5, hash_ids: [1, 2] }),
    );
    const path = join(folder(), 'page.html');
    expect((await run(['replay', write('gap.jsonl', rows.join('\n')), '--report', path])).code).toBe(0);
    const charts = block<Drawn[]>(readFileSync(path, 'utf8'), 'charts');
    for (const id of ['running', 'waiting', 'kv-usage']) {
      const { source } = charts.find((chart) => chart.id === id)!.option.baseOption.dataset;
      expect(source.slice(1, -1).every((row) => row[5] === 0)).toBe(true);
      expect(source.length).toBeGreaterThan(200);
    }
    const running = charts.find(({ id }) => id === 'running')!.option.baseOption.dataset.source;
    expect([running[0][5], running.at(-1)![5]]).toEqual([1, 1]);
  });

  it('counts those that wait outside of the scheduler too', async () => {
    const path = join(folder(), 'page.html');
    const all = ['replay', '--json', '--requests', '300', '--request-rate', '1000000', '--max-num-seqs', '4'];
    await run([...all, '--report', path]);
    const charts = block<Drawn[]>(readFileSync(path, 'utf8'), 'charts');
    const { source } = charts.find(({ id }) => id === 'waiting')!.option.baseOption.dataset;
    expect(Math.max(...source.map((row) => row[5] ?? 0))).toBeGreaterThanOrEqual(295);
  });

  it('is written when the replay is interrupted, and says so', async () => {
    const path = join(folder(), 'page.html');
    const signal = AbortSignal.abort();
    const { code, stdout } = await run(['replay', '--json', '--requests', '50000', '--report', path], {
      signal,
    });
    expect([code, (JSON.parse(stdout) as Report).incomplete]).toEqual([130, true]);
    expect(readFileSync(path, 'utf8')).toContain('Incomplete: the replay was interrupted');
  });

  it('is not written when the trace is refused or its reading is interrupted', async () => {
    const place = folder();
    const path = join(place, 'page.html');
    const bad = write('bad.jsonl', '{"timestamp":0}\n');
    expect((await run(['replay', bad, '--report', path])).code).toBe(2);
    const row = '{"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[1]}\n';
    const long = write('long.jsonl', row.repeat(3000));
    const { code } = await run(['replay', long, '--report', path, '--record', `${path}.log`], {
      signal: AbortSignal.abort(),
    });
    expect([code, readdirSync(place)]).toEqual([130, []]);
  });

  it('replaces an older one only when it is whole', async () => {
    const path = write('older.html', 'old');
    expect((await run([...SMALL, '--report', path, '--num-blocks', '1'])).code).toBe(2);
    expect(readFileSync(path, 'utf8')).toBe('old');
    expect((await run([...SMALL, '--report', path])).code).toBe(0);
    expect(statSync(path).size).toBeGreaterThan(500_000);
  });
});

describe('a file that cannot be written', () => {
  const cases: [name: string, path: (place: string) => string, message: RegExp][] = [
    ['a folder', (place) => place, /it is a folder/],
    ['a missing folder', (place) => join(place, 'no', 'page.html'), /ENOENT/],
    ['a file in a file', () => join(write('file', ''), 'page.html'), /ENOTDIR/],
    ['a device', () => '/dev/null', /it is no regular file/],
    ['nothing', () => '', /it names no file/],
    ['a name for a folder', (place) => `${place}/new/`, /it names no file/],
  ];
  for (const flag of ['--report', '--record']) {
    it.each(cases)(`${flag} %s ends with exit code 2 before anything runs`, async (_, path, message) => {
      const place = folder();
      const { code, stdout, stderr } = await run(['replay', '--requests', '5', flag, path(place)]);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(/^ERR_BLOCKSTEP_BAD_FILE: .*: cannot be written: /);
      expect(stderr).toMatch(message);
      expect(readdirSync(place)).toEqual([]);
    });
  }

  it('is neither the trace nor the other file', async () => {
    const trace = write('trace.jsonl', '{"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[1]}\n');
    const link = join(folder(), 'link.jsonl');
    symlinkSync(trace, link);
    const before = readFileSync(trace, 'utf8');
    for (const args of [
      [trace, '--report', trace],
      [trace, '--record', link],
      [link, '--record', trace],
    ]) {
      const { code, stderr } = await run(['replay', ...args]);
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(/ERR_BLOCKSTEP_BAD_ARG: .* would replace the trace/),
      ]);
    }
    expect(readFileSync(trace, 'utf8')).toBe(before);
    const place = folder();
    const both = join(place, 'both');
    const { code, stderr } = await run(['replay', '--report', both, '--record', both]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--report and --record both name')]);
    expect(readdirSync(place)).toEqual([]);
  });

  it('because the disk is full ends with exit code 1 and leaves nothing behind', () => {
    const place = folder();
    const path = join(place, 'big.log');
    // Files may grow to 2 MiB: the log to ten times that. The signal for it is ignored, so that writing fails instead.
    const script = `trap '' XFSZ; ulimit -f 2048; exec "$@"`;
    const main = join(ROOT, 'src/cli/main.ts');
    const command = [process.execPath, '--import', 'tsx', main, 'replay', '--record', path];
    const { status, stdout, stderr } = spawnSync('bash', ['-c', script, 'bash', ...command], {
      encoding: 'utf8',
      cwd: ROOT,
    });
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`ERR_BLOCKSTEP_BAD_FILE: ${path}: cannot be written: EFBIG`);
    expect(readdirSync(place)).toEqual([]);
  });
});

it('a page without the plotting package says what to install, before anything runs', () => {
  const place = folder();
  // The sources again, where the packages are found but for that one.
  for (const name of ['src', 'package.json'])
    cpSync(join(ROOT, name), join(place, name), { recursive: true });
  mkdirSync(join(place, 'node_modules'));
  for (const name of [
    'commander',
    'cli-table3',
    'csv-parse',
    'cli-progress',
    'tsx',
    'esbuild',
    'get-tsconfig',
    'fastest-levenshtein',
  ]) {
    symlinkSync(join(ROOT, 'node_modules', name), join(place, 'node_modules', name));
  }
  writeFileSync(join(place, 'README'), '');
  const main = join(place, 'src/cli/main.ts');
  const path = join(place, 'page.html');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', 'tsx', main, 'replay', '--report', path],
    { encoding: 'utf8', cwd: place },
  );
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toBe(
    'ERR_BLOCKSTEP_NO_PACKAGE: replay --report needs the package echarts, which is not installed: npm install echarts\n',
  );
  expect(readdirSync(place)).not.toContain('page.html');
});

it('a command line can be typed again', () => {
  const args = ['replay', 'a b', "it's", '$HOME', '', '--seed=1', '<'];
  const { stdout } = spawnSync('sh', ['-c', `printf '%s\\n' ${commandLine(args)}`], {
    encoding: 'utf8',
  });
  expect(stdout.slice(0, -1).split('\n')).toEqual(args);
});
