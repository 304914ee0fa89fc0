// The record of a run is written after every check; figures, suites, comparisons and options are
// read rightly.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { judgeComparison } from '../../bench/gpu/checks/comparison.js';
import { judgeSuite } from '../../bench/gpu/checks/suites.js';
import { parseGpu } from '../../bench/gpu/host/host.js';
import { TREE } from '../../bench/gpu/host/tree.js';
import { readRunOptions } from '../../bench/gpu/options.js';
import { type Figure, readFigures } from '../../bench/gpu/record/figure.js';
import { GpuRecord, newestGpuResults, parseGpuResults, type Verdict } from '../../bench/gpu/record/record.js';
import { gpuSection, replaceSection } from '../../bench/gpu/record/section.js';

const folder = mkdtempSync(join(tmpdir(), 'blockstep-gpu-record-'));
afterAll(() => rmSync(folder, { recursive: true }));

const HOST = {
  gpu: { name: 'NVIDIA H100 80GB HBM3', driver: '580.1', memoryMiB: 81559, computeCapability: '9.0' },
  noGpu: null,
  cuda: '13.0',
  cpu: 'a CPU',
  cores: 16,
  memoryGiB: 128,
  kernel: '6.1',
};
const HEAD = {
  emulated: false,
  date: '2026-11-21T12:34:56.000Z',
  build: { commit: '0123456789abcdef', dirty: false, versions: {} },
  host: HOST,
  options: {},
};
const FIGURE: Figure = {
  name: 'decode of 256, 16 new blocks',
  authority: 'host',
  beside: 'idle',
  p50Us: 8.25,
  p99Us: 12.5,
  samples: 4000,
  budgetUs: 10,
};

describe('the record of a run', () => {
  const record = new GpuRecord(folder, HEAD);
  const read = () => parseGpuResults(readFileSync(record.file, 'utf8'), record.file);

  it('stands in its file from the beginning, and after every check', () => {
    expect(readdirSync(folder)).toEqual(['gpu-2026-11-21-12-34-01234567-nvidia-h100-80gb-hbm3.json']);
    expect(read()).toMatchObject({ complete: false, checks: [], host: HOST });
    record.add({ name: 'one', verdict: 'passed', seconds: 1.234, detail: null });
    expect(read().checks).toEqual([{ name: 'one', verdict: 'passed', seconds: 1.2, detail: null }]);
    record.addFigures([FIGURE]);
    expect(read().figures).toEqual([FIGURE]);
    record.finish();
    expect(read().complete).toBe(true);
  });

  it.each([
    [[], 1],
    [['passed', 'passed'], 0],
    [['passed', 'unavailable'], 0],
    [['passed', 'failed'], 1],
    [['unfinished'], 1],
  ] as [Verdict[], number][])('of checks that ended %j gives exit code %i', (verdicts, code) => {
    const other = new GpuRecord(join(folder, 'codes'), HEAD);
    for (const verdict of verdicts) other.add({ name: verdict, verdict, seconds: 0, detail: null });
    expect(other.exitCode).toBe(code);
  });

  it('is refused where it is none', () => {
    expect(() => parseGpuResults('{"schema": 1}', 'x')).toThrow('x has kind undefined and schema 1');
    const text = JSON.stringify({ ...read(), figures: [{ name: 'x' }] });
    expect(() => parseGpuResults(text, 'x')).toThrow('x has a figure that is none');
  });
});

describe('figures', () => {
  it('are read line by line, as far as the benchmark came', () => {
    const line = JSON.stringify(FIGURE);
    expect(readFigures(`${line}\nnoise\n{"name":"x"}\n${line}\n${line.slice(0, 40)}`)).toEqual([
      FIGURE,
      FIGURE,
    ]);
  });

  it('make the tables of docs/gpu.md, each marked with its device and its budget', () => {
    const results = parseGpuResults(
      JSON.stringify({ ...new GpuRecord(join(folder, 'table'), HEAD).results, figures: [FIGURE] }),
      'x',
    );
    const section = gpuSection(results);
    expect(section).toContain('one NVIDIA H100 80GB HBM3 (driver 580.1, CUDA 13.0) at 01234567');
    expect(section).toContain('| decode of 256, 16 new blocks | host | 8.25 / 12.5 (10, budget met) |');
    const slow = gpuSection({ ...results, figures: [{ ...FIGURE, p50Us: 11 }] });
    expect(slow).toContain('11 / 12.5 (10, budget missed)');
    expect(slow).toContain('unmeasured');
  });

  it('stand in the row of who decided', () => {
    const { budgetUs, ...decided } = { ...FIGURE, authority: 'device' as const, p50Us: 20, p99Us: 30 };
    const figures = [FIGURE, decided, { ...decided, name: `${decided.name}, host side`, p50Us: 3, p99Us: 5 }];
    const results = { ...new GpuRecord(join(folder, 'authorities'), HEAD).results, figures };
    const section = gpuSection(results);
    const besides = 'unmeasured | unmeasured | unmeasured';
    expect(section).toContain(
      `| ${FIGURE.name} | host | 8.25 / 12.5 (10, budget met) | unmeasured | ${besides} | unmeasured |`,
    );
    expect(section).toContain(`| ${FIGURE.name} | device | 20 / 30 |  | ${besides} | 3 / 5 |`);
  });

  it('of steps have the names under which the native benchmark prints them, whoever decided', () => {
    const source = readFileSync(join(TREE, 'native', 'test', 'gpu', 'bench', 'worn_pool.h'), 'utf8');
    const printed = [...source.matchAll(/^ +\{"([^"]+)"/gm)].map(([, name]) => name);
    const section = gpuSection(null);
    for (const authority of ['host', 'device']) {
      const rows = [...section.matchAll(new RegExp(`^\\| ([^|]+) \\| ${authority} \\|`, 'gm'))];
      expect(rows.map(([, name]) => name)).toEqual(printed);
    }
    expect(printed).toHaveLength(4);
  });

  it('of kernels and lanes have the names under which the native benchmark prints them', () => {
    const source = (file: string): string =>
      readFileSync(join(TREE, 'native', 'test', 'gpu', 'bench', file), 'utf8');
    const section = gpuSection(null);
    const named = (text: string, pattern: RegExp): string[] =>
      [...text.matchAll(pattern)].map(([, name]) => name!);
    const ways = named(source('kernels/apply_ways.cu'), /^ +(?:\{|way<.*>\()"([^"]+)"/gm);
    expect(ways).toHaveLength(5);
    expect(named(section, /^\| decode of 256 applied by another kernel, ([^|]+) \|/gm)).toEqual(ways);
    const rungs = named(source('kernels/ladder.cu'), /^ +\{\.name = "([^"]+)"/gm);
    expect(rungs).toHaveLength(10);
    const ladder = section.slice(section.indexOf('| a kernel that only completes |'));
    expect(named(ladder.slice(0, ladder.indexOf('\n\n')), /^\| ([^|-]+) \|/gm).slice(1)).toEqual(rungs);
    const lanes = named(source('copy_bench.h'), /"((?:lane by|one cuda)[^"]*)"/g);
    expect(lanes).toHaveLength(3);
    expect(new Set(named(section, /^\| ((?:lane|one).*) to the GPU \|/gm))).toEqual(new Set(lanes));
  });

  it('stand in docs/gpu.md as the newest result has them, or as unmeasured', () => {
    const page = readFileSync(join(TREE, 'docs', 'gpu.md'), 'utf8');
    expect(replaceSection(page, gpuSection(newestGpuResults()))).toBe(page);
    expect(() => replaceSection('no such lines', '')).toThrow('there is no');
  });
});

describe('what is read of the host', () => {
  it('is the first GPU that the driver names', () => {
    const csv = 'NVIDIA H200, 580.159.03, 143771, 9.0\nNVIDIA A100, 580.159.03, 81920, 8.0\n';
    const gpu = { name: 'NVIDIA H200', driver: '580.159.03', memoryMiB: 143771, computeCapability: '9.0' };
    expect(parseGpu(csv)).toEqual(gpu);
    for (const bad of ['', 'No devices were found', 'NVIDIA H200, 580, 1, [N/A]'])
      expect(parseGpu(bad)).toBeNull();
  });
});

describe('a suite', () => {
  const test = { status: 'passed', fullName: 'a test', failureMessages: [] };
  const file = { name: 'a.test.ts', status: 'passed', message: '', assertionResults: [test] };
  const report = {
    numTotalTests: 3,
    numPassedTests: 1,
    numFailedTests: 0,
    numPendingTests: 2,
    testResults: [file],
  };

  it('has passed if something ran and nothing failed', () => {
    expect(judgeSuite(report)).toEqual({ verdict: 'passed', detail: { passed: 1, failed: 0, skipped: 2 } });
    expect(judgeSuite({ ...report, numPassedTests: 0 }).verdict).toBe('failed');
  });

  it('has failed with a test, and with a file that could not be loaded; both are named', () => {
    const failed = { ...test, status: 'failed', failureMessages: ['expected 1 to be 2\n  at x'] };
    const one = judgeSuite({
      ...report,
      numFailedTests: 1,
      testResults: [{ ...file, status: 'failed', assertionResults: [failed] }],
    });
    expect(one).toMatchObject({ verdict: 'failed', detail: { failures: [{ test: 'a test' }] } });
    const broken = { ...file, status: 'failed', message: 'no such module', assertionResults: [] };
    const two = judgeSuite({ ...report, testResults: [file, broken] });
    expect(two).toMatchObject({
      verdict: 'failed',
      detail: { failed: 1, failures: [{ message: 'no such module' }] },
    });
  });
});

describe('the comparison of CUDA with the host', () => {
  const run = (authority: string | null, steps: number) => ({
    name: 'x',
    steps,
    ...(authority && { authority }),
  });
  const ended = (runs: object[], equal = true, status = 0) => ({
    ...{ status, timedOut: false, seconds: 1, stderr: 'said last' },
    stdout: JSON.stringify({ equal, runs }),
  });

  it('has passed for an authority with as many equal steps as were asked for', () => {
    const both = ended([run(null, 60), run('host', 50), run('device', 99)]);
    expect(judgeComparison(both, 'host', 100)).toMatchObject({ verdict: 'passed', detail: { steps: 110 } });
    expect(judgeComparison(both, 'device', 100)).toMatchObject({ verdict: 'failed', detail: { steps: 99 } });
    expect(judgeComparison(ended([run('host', 100)]), 'device', 100).verdict).toBe('unavailable');
  });

  it('has failed with a difference, with an error, and without an answer', () => {
    expect(judgeComparison(ended([run('host', 100)], false), 'host', 100).verdict).toBe('failed');
    expect(judgeComparison(ended([run('host', 100)], true, 1), 'host', 100).verdict).toBe('failed');
    const broken = { ...ended([]), stdout: '{"runs": [' };
    expect(judgeComparison(broken, 'host', 100)).toMatchObject({
      verdict: 'failed',
      detail: expect.stringContaining('said last'),
    });
    expect(judgeComparison({ ...ended([]), timedOut: true }, 'host', 100).verdict).toBe('unfinished');
  });
});

describe('the options of a run', () => {
  it('have defaults, and name what is wrong', () => {
    expect(readRunOptions([])).toMatchObject({
      minutes: 9,
      steps: 100_000,
      only: ['a', 'b', 'c', 'd'],
      emulated: false,
    });
    expect(readRunOptions(['--help']).help).toBe(true);
    expect(readRunOptions(['--only', 'd,a', '--steps', '7']).only).toEqual(['a', 'd']);
    expect(() => readRunOptions(['--only', 'a,x'])).toThrow('--only must be some of a,b,c,d, got a,x');
    expect(() => readRunOptions(['--minutes', '0'])).toThrow('--minutes must be a number above 0, got 0');
    expect(() => readRunOptions(['--steps', 'many'])).toThrow('--steps must be a number above 0, got many');
    expect(() => readRunOptions(['--what'])).toThrow("Unknown option '--what'");
  });
});
