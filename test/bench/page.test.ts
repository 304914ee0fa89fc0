// The page of a result, and the options of `npm run bench`.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { HELP, readOptions } from '../../bench/options.js';
import { GROUP_WORDS } from '../../bench/report/groups.js';
import { benchPage } from '../../bench/report/page.js';
import { BASELINE, readResults } from '../../bench/rows/results.js';
import { GROUPS } from '../../bench/rows/row.js';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { loadPlotLibrary } from '../../src/report/page/library.js';
import { useTempFiles } from '../support/temp-file.js';

const write = useTempFiles();
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs the benchmark's command; nothing is measured here. */
function bench(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const main = scriptArguments(import.meta.url, '../../bench/main');
  return spawnSync(process.execPath, [...main, ...args], { encoding: 'utf8', cwd: ROOT });
}

describe('the page of the benchmark', () => {
  it('is made of a result without measuring anything', () => {
    const path = write('page.html', '');
    const { status, stdout } = bench('--from', BASELINE, '--report', path);
    expect([status, stdout]).toEqual([0, `written to ${path}\n`]);
    const page = readFileSync(path, 'utf8');
    expect(page).toContain(`npm run bench -- --from ${BASELINE}`);
    const { rows, machine } = readResults(BASELINE);
    for (const { value } of rows) expect(page).toContain(`<data value="${value}">`);
    for (const fact of [machine.cpu, machine.commit, machine.date]) expect(page).toContain(fact);
  });

  it('compares with nobody whose version, machine and date are not known', () => {
    const page = benchPage(readResults(BASELINE), loadPlotLibrary(), []);
    const markup = page.replace(/<script[^>]*>.*?<\/script>/gs, '');
    expect(markup).not.toMatch(/vllm|mistral|scalellm|sglang/i);
  });

  it('shows what was measured, also where that is below 0', () => {
    const { rows, ...rest } = readResults(BASELINE);
    const name = 'step, per request';
    const some = rows.map((row) =>
      row.name === name && row.group === 'heap' ? { ...row, value: -0.113 } : row,
    );
    const page = benchPage({ ...rest, rows: some }, loadPlotLibrary(), []);
    const budget =
      /heap of a step, each request<\/th><td>bytes<\/td><td>.*?<\/td><td>(.*?)<\/td><td>(.*?)<\/td>/.exec(
        page,
      );
    expect(budget?.slice(1)).toEqual(['<data value="-0.113">-0.113</data>', 'met']);
    expect(page).toContain('a figure below 0 says no more than that none was found');
  });

  it('stands beside the result unless a path is given', () => {
    const result = write('result.json', readFileSync(BASELINE));
    const { status, stderr } = bench('--report', '--from', result);
    expect([status, stderr]).toEqual([0, '']);
    expect(existsSync(result.replace('.json', '.html'))).toBe(true);
  });

  it.each([...new Set(readResults(BASELINE).rows.map(({ group }) => group))])(
    'can be made of a run with --only %s',
    (only) => {
      const { rows, ...rest } = readResults(BASELINE);
      const some = rows.filter(({ group }) => group === only || group === 'calibration');
      const page = benchPage({ ...rest, quick: true, rows: some }, loadPlotLibrary(), []);
      expect(page).toContain(only === 'heap' ? `<h2>${GROUP_WORDS.heap.title}</h2>` : `id="group-${only}"`);
      expect(page).toContain('A quick run');
      expect(page.includes('id="scaling"')).toBe(only === 'decode');
      const markup = page.replace(/<script[^>]*>.*?<\/script>/gs, '');
      expect(markup).not.toMatch(/NaN|Infinity|undefined/);
    },
  );

  it('explains itself, and measures nothing', () => {
    const { status, stdout, stderr } = bench('--help');
    expect([status, stderr, stdout]).toEqual([0, '', `${HELP}\n`]);
    for (const group of GROUPS) expect(stdout).toContain(`\n  ${group} `);
  });

  it.each([
    [['--report', '/no/such/folder/a.html'], 'cannot be written: ENOENT'],
    [['--report', '/dev/null', '--from', BASELINE], 'it is no regular file'],
    [['--only', 'nothing'], '--only must be one of calibration, decode'],
  ])('is refused for %j', (args, message) => {
    const { status, stdout, stderr } = bench(...args);
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
  });
});

describe('options of the benchmark', () => {
  it('ask for help, or for a run', () => {
    expect(readOptions(['-h'])).toBe(null);
    const run = { only: null, quick: false, out: null, write: true, report: null, from: null };
    expect(readOptions([])).toEqual(run);
    expect(readOptions(['--only', 'heap', '--quick', '--no-write'])).toEqual({
      ...run,
      only: 'heap',
      quick: true,
      write: false,
    });
    expect(readOptions(['--report'])).toEqual({ ...run, report: '' });
    expect(readOptions(['--from', 'a.json', '--report', 'b'])).toEqual({
      ...run,
      from: 'a.json',
      report: 'b',
    });
  });

  it.each([
    [['page.html'], 'unexpected argument page.html'],
    [['--report', 'a', 'b'], 'unexpected argument b'],
    [['--from', BASELINE], '--from goes with --report alone'],
    [['--from', BASELINE, '--report', 'a', '--quick'], '--from goes with --report alone'],
    [['--from', BASELINE, '--report', 'a', '--out', 'b'], '--from goes with --report alone'],
    [['--no-write', '--report'], '--no-write needs the path of the page'],
    [['--no-such-flag'], "Unknown option '--no-such-flag'"],
  ])('are refused for %j', (args, message) => {
    expect(() => readOptions(args)).toThrow(message);
  });
});
