// The HTML page of a replay shows what the report says, in every chart.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Report } from '../../src/cli/replay/report/report.js';
import { commandLine } from '../../src/cli/terminal/command-line.js';
import { useTempFiles, useTempFolders } from '../support/temp-file.js';
import { run } from './run-program.js';

const write = useTempFiles();
const folder = useTempFolders(write);

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
    expect(drawn[0]).toHaveLength(11);
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
      ['e2e', report.e2eMs],
      ['step', report.schedulerStepUs],
    ] as const) {
      expect(sum(rows(id).map((row) => row[3]))).toBe(of.count);
    }
    // Columns: from, to, middle, then smallest, mean, largest.
    expect(Math.max(...rows('running').map((row) => row[5] ?? 0))).toBeLessThanOrEqual(256);
    expect(Math.max(...rows('kv-usage').map((row) => row[5] ?? 0))).toBeGreaterThan(0.9);
    const lookups = rows('hit-rate').map((row) => row[9]);
    expect(lookups.findLast((rate) => rate !== null)).toBeCloseTo(report.prefixCache.hitRate, 3);
    const page = readFileSync(path, 'utf8');
    const [, mean] = /at the time<\/span><\/th><td>.*?<\/td><td><data value="([\d.]+)"/.exec(page) ?? [];
    expect(Number(mean)).toBeCloseTo(report.prefixCache.hitRate, 12);
    const slowest = Math.max(...rows('step-over-time').map((row) => row[5] ?? 0));
    expect(slowest / report.schedulerStepUs.max!).toBeCloseTo(1, 3);
    // A mean times the seconds of its row, over all rows, is all that came.
    const total = (id: string): number => sum(rows(id).map((row) => (row[1]! - row[0]!) * (row[4] ?? 0)));
    expect(total('throughput') / report.tokens.generated).toBeCloseTo(1, 2);
    expect(Math.max(...rows('e2e-over-time').map((row) => row[5] ?? 0))).toBeCloseTo(
      report.e2eMs.max! / 1000,
      2,
    );
    expect(Math.max(...rows('batch-size').map((row) => row[5] ?? 0))).toBeGreaterThan(10);
    const waiting = rows('waiting').map((row) => row[5] ?? 0);
    expect(Math.max(...waiting)).toBeGreaterThan(20);
    expect(waiting.at(-1)).toBe(0);
  });

  it('draws preemptions where they were, and all of them', async () => {
    const path = join(folder(), 'page.html');
    const tight = ['--num-blocks', '500', '--no-reserve-full-isl'];
    const { stdout } = await run([...SMALL, ...tight, '--report', path]);
    const { preemptions } = JSON.parse(stdout) as Report;
    expect(preemptions).toBeGreaterThan(10);
    const charts = block<Drawn[]>(readFileSync(path, 'utf8'), 'charts');
    const { source } = charts.find(({ id }) => id === 'preemptions')!.option.baseOption.dataset;
    const all = source.reduce((sum, row) => sum + (row[1]! - row[0]!) * (row[4] ?? 0), 0);
    expect(all / preemptions).toBeCloseTo(1, 2);
  });

  it('has one axis of time for all that happens over time', async () => {
    const path = join(folder(), 'page.html');
    const { stdout } = await run([...SMALL, '--report', path]);
    const { virtualSeconds } = JSON.parse(stdout) as Report;
    const charts = block<(Drawn & { isOverTime?: true })[]>(readFileSync(path, 'utf8'), 'charts');
    const axes = charts
      .filter(({ isOverTime }) => isOverTime)
      .map(({ option }) => (option.baseOption as unknown as { xAxis: { min: number; max: number } }).xAxis)
      .map(({ min, max }) => [min, max]);
    expect(axes.length).toBeGreaterThanOrEqual(8);
    const [first, ...others] = axes;
    expect(first[0]).toBe(0);
    expect(first[1]).toBeCloseTo(virtualSeconds, 2);
    for (const axis of others) expect(axis).toEqual(first);
  });

  it('says where nothing happened, and does not draw it', async () => {
    const path = join(folder(), 'page.html');
    await run(['replay', '--json', '--requests', '1', '--report', path]);
    const page = readFileSync(path, 'utf8');
    expect(page).toContain('No request had to wait.');
    expect(page).toContain('No request was preempted.');
    expect(page).toMatch(/A single value: [\d,.]+ ms\./);
    expect(page).toContain('1 request through the scheduler');
    const charts = block<(Drawn & { option: { baseOption: { yAxis: object } } })[]>(page, 'charts');
    // Nothing was found, of all that could have been.
    expect(charts.find(({ id }) => id === 'hit-rate')!.option.baseOption.yAxis).toMatchObject({ max: 1 });
    const drawn = charts.map(({ id }) => id);
    for (const id of ['waiting', 'preemptions', 'ttft', 'tpot', 'e2e']) expect(drawn).not.toContain(id);
  });

  it('says that a trace without prompt contents can have no prefix hits, and so does the table', async () => {
    const csv =
      'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,90,3\n2023-11-16 18:17:04.03,90,3\n';
    const path = join(folder(), 'page.html');
    const { stdout } = await run(['replay', write('azure.csv', csv), '--report', path]);
    const why = 'no hits possible: the trace has no prompt contents';
    expect(stdout).toMatch(new RegExp(`│ prefix cache +│ ${why} +│`));
    const page = readFileSync(path, 'utf8');
    const markup = page.replace(/<script[^>]*>.*?<\/script>/gs, '');
    expect(markup).toContain(`Prefix cache: ${why}.`);
    expect(markup).toContain(`<dd class="detail">${why}</dd>`);
    expect(block<Drawn[]>(page, 'charts').map(({ id }) => id)).not.toContain('hit-rate');
    const off = await run(['replay', '--requests', '3', '--no-enable-prefix-caching']);
    expect(off.stdout).toMatch(/│ prefix cache +│ turned off +│/);
  });

  it('says that its load exceeds the capacity', async () => {
    const path = join(folder(), 'page.html');
    await run([
      'replay',
      '--json',
      '--requests',
      '300',
      '--request-rate',
      '100',
      '--max-num-seqs',
      '8',
      '--report',
      path,
    ]);
    expect(readFileSync(path, 'utf8')).toContain('<strong>Overload</strong>: the load exceeds the capacity.');
    await run([...SMALL, '--request-rate', '1', '--report', path]);
    expect(readFileSync(path, 'utf8')).not.toContain('Overload');
  });

  it('shows that nothing runs between two arrivals', async () => {
    const lines = [0, 60_000].map((timestamp) =>
      JSON.stringify({ timestamp, input_length: 900, output_length: 5, hash_ids: [1, 2] }),
    );
    const path = join(folder(), 'page.html');
    expect((await run(['replay', write('gap.jsonl', lines.join('\n')), '--report', path])).code).toBe(0);
    const charts = block<Drawn[]>(readFileSync(path, 'utf8'), 'charts');
    for (const id of ['running', 'kv-usage']) {
      const { source } = charts.find((chart) => chart.id === id)!.option.baseOption.dataset;
      expect(source.slice(1, -1).every((row) => row[5] === 0)).toBe(true);
      expect(source.length).toBeGreaterThan(200);
    }
    const rows = (id: string) => charts.find((chart) => chart.id === id)!.option.baseOption.dataset.source;
    const running = rows('running');
    expect([running[0][5], running.at(-1)![5]]).toEqual([1, 1]);
    const means = (id: string) => rows(id).map((row) => row[4]);
    // Between them no step is computed, and no token comes.
    expect(new Set(means('batch-size').slice(1, -1))).toEqual(new Set([null]));
    expect([means('batch-size')[0], means('batch-size').at(-1)]).toEqual([1, 1]);
    expect(new Set(means('throughput').slice(1, -1))).toEqual(new Set([0]));
    expect(means('throughput').at(-1)).toBeGreaterThan(1);
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
    expect(readFileSync(path, 'utf8')).toContain('<strong>Incomplete</strong>: the replay was interrupted');
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
