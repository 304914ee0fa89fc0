// `docs/benchmarks.md` and the speed in `README.md` are made of one result.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { benchmarksPage, MADE, PAGE, replaceSpeed, speedSection } from '../../bench/docs/page.js';
import { PARTS, type Part, tablesOf, tracePrograms } from '../../bench/docs/parts.js';
import { gpuSpeed } from '../../bench/gpu/record/speed.js';
import { REPOSITORY } from '../../bench/machine.js';
import {
  BASELINE,
  newestWithParts,
  type Results,
  readResults,
  writeResults,
} from '../../bench/rows/results.js';
import { GROUPS, type Group, type Row } from '../../bench/rows/row.js';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { clumsySentences } from '../docs/words.js';
import { temporaryFolder } from '../support/temp-file.js';

const TABLE = '| a | b |\n| --- | ---: |\n| one | 12,345 |';
const part = (name: string): Part => ({ name, tables: TABLE, error: null, seconds: 1 });
const baseline = readResults(BASELINE);
const whole: Results = { ...baseline, parts: PARTS.map(({ name }) => part(name)) };
const empty: Results = { ...baseline, rows: [], parts: [] };

describe('docs/benchmarks.md', () => {
  it('is what its result says, once it was made of one', () => {
    const file = newestWithParts();
    const page = readFileSync(PAGE, 'utf8');
    if (file === null) expect(page).not.toContain(MADE);
    else {
      const results = readResults(file);
      expect(page).toBe(benchmarksPage(results, relative(REPOSITORY, file)));
      const readme = readFileSync(join(REPOSITORY, 'README.md'), 'utf8');
      expect(readme).toBe(replaceSpeed(readme, speedSection(results, gpuSpeed())));
    }
  });

  it('names its result, its commit and its machine', () => {
    const page = benchmarksPage(whole, 'bench/results/x.json');
    const { cpu, date, commit } = whole.machine;
    for (const fact of [
      cpu,
      date.slice(0, 10),
      `commit ${commit?.slice(0, 8)}`,
      '[bench/results/x.json](https',
    ])
      expect(page).toContain(fact);
    expect(page).not.toContain('a quick run');
    expect(benchmarksPage({ ...whole, quick: true }, 'x')).toContain('It was a quick run');
  });

  it('has the figures of the result, and no others', () => {
    const page = benchmarksPage(whole, 'x');
    const p50 = (name: string) =>
      baseline.rows.find((row) => row.group === 'decode' && row.name === name)?.value;
    expect(page).toMatch(
      new RegExp(`^\\| 256 \\| [\\d.]+ \\| ${(p50('256') as number).toFixed(1)} \\|`, 'm'),
    );
    expect(page.split(TABLE)).toHaveLength(PARTS.length + 1);
    // Without a result the words alone are left: no time, no rate, no ratio that somebody wrote into them.
    const words = benchmarksPage(empty, 'x').replace(/Goals?: [^.]*\.[^.]*?(\.\d[^.]*)*\./g, '');
    expect(words.match(/(?<![p\d])\d[\d.,]* ?(µs|ms|MiB\/s|tokens\/s|times|million|bytes|%)/g)).toEqual(null);
    expect(words).not.toMatch(/undefined|NaN/);
    expect(words).toContain('takes –');
  });

  it('has no sentence that has to be read twice', () => {
    expect(clumsySentences(benchmarksPage(whole, 'x'))).toEqual([]);
  });

  it('says which part could not run, and which was not asked to', () => {
    const broken: Part = { name: 'pipeline', tables: null, error: 'spawn redis-server ENOENT', seconds: 0 };
    const page = benchmarksPage({ ...whole, parts: [broken] }, 'x');
    expect(page).toContain('`npm run bench:pipeline` could not run: spawn redis-server ENOENT');
    expect(page).toContain('`npm run bench:lease -- 15`: not in this run.');
  });

  it('has every group of the benchmark but those that are elsewhere', () => {
    const one: Partial<Record<Group, string>> = {
      calibration: 'empty native call',
      decode: '256',
      mixed: 'step',
      lives: 'scheduler 2, steps 1 to 100',
      operations: 'release, 1M cached',
      'kv-groups': '256, 2 groups',
      tables: 'gather, 1024',
      transfers: 'lane / memcpy, 4 KiB scattered',
      heap: 'step, per request',
      engine: '64 streams, by a listener',
    };
    expect(GROUPS.filter((group) => one[group] === undefined)).toEqual(['reference', 'cuda']);
    const latency = { min: 11.5, p1: 11.5, p50: 11.5, p90: 11.5, p99: 11.5, samples: 1 };
    for (const [group, name] of Object.entries(one)) {
      const row: Row = { group: group as Group, name, unit: 'us', value: 11.5, latency };
      expect(benchmarksPage({ ...empty, rows: [row] }, 'x'), group).toContain('11.5');
    }
  });
});

describe('the speed in README.md', () => {
  it('is of the same result, and of the newest one of a GPU', () => {
    const section = speedSection(whole, gpuSpeed());
    expect(section).toContain(`at commit ${whole.machine.commit?.slice(0, 8)}`);
    expect(section).toMatch(/256 running decodes takes [\d.]+ µs at the median, [\d.]+ µs per request/);
    expect(gpuSpeed()).toMatch(
      /^On an H200, updating the block tables on the GPU for a decode step of 256 requests takes [\d.]+ µs at/,
    );
    expect(section).toContain(gpuSpeed());
    expect(gpuSpeed(null)).toBe(null);
    const text = readFileSync(join(REPOSITORY, 'README.md'), 'utf8');
    const made = replaceSpeed(text, section);
    expect(made).toContain(section);
    expect(replaceSpeed(made, section)).toBe(made);
    expect(() => replaceSpeed('no marks', section)).toThrow(
      'there is no "<!-- made by npm run bench:docs -->"',
    );
  });
});

describe('the programs of the page', () => {
  it('are there, and are commands of the package', () => {
    const { scripts } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    for (const { command, script } of [...PARTS, ...tracePrograms('a', 'b')]) {
      const name = /^npm run (\S+)/.exec(command)?.[1] as string;
      expect(scripts[name]).toContain(`build/bench/bench/${script}.js`);
    }
  });

  it('print tables, of which the page has the titles too', () => {
    const stdout = `AMD EPYC, 2 cores, node v20.20.2, load 1 2 3, abc\n\nA title\n\n${TABLE}\n\n${TABLE}\n\nwritten: x\n`;
    expect(tablesOf(stdout)).toBe(`A title:\n\n${TABLE}\n\n${TABLE}`);
    expect(tablesOf('nothing of use\n')).toBe('');
  });
});

describe('npm run bench:docs', () => {
  const main = scriptArguments(import.meta.url, '../../bench/docs/main');
  const docs = (args: readonly string[], env = {}) =>
    spawnSync(process.execPath, [...main, ...args], {
      encoding: 'utf8',
      timeout: 30_000,
      env: { ...process.env, ...env },
    });

  it('makes the page of a result', () => {
    const file = join(temporaryFolder(), 'result.json');
    writeResults(file, whole);
    const { status, stdout } = docs([file]);
    expect(status).toBe(0);
    expect(stdout.startsWith(`${MADE}\n\n# Benchmarks\n`)).toBe(true);
  });

  it('finds the newest result of everything', () => {
    const folder = join(temporaryFolder(), 'results');
    mkdirSync(folder);
    expect(newestWithParts(folder)).toBe(null);
    writeFileSync(join(folder, 'gpu-x.json'), '{}');
    const at = (name: string, date: string, results: Results) =>
      writeResults(join(folder, name), { ...results, machine: { ...results.machine, date } });
    at('2026-01-01-a.json', '2026-01-01', whole);
    at('2026-01-02-b.json', '2026-01-02', whole);
    at('2026-01-03-c.json', '2026-01-03', baseline);
    expect(newestWithParts(folder)).toBe(join(folder, '2026-01-02-b.json'));
  });

  it('measures nothing in a checkout that has no commit, or is not as its commit is', () => {
    const refused = (env: Record<string, string>): void => {
      const { status, stderr } = docs(['--run'], env);
      const refusal = 'bench:docs: --run wants a checkout without changes: the page names one commit\n';
      expect([status, stderr]).toEqual([1, refusal]);
    };
    refused({ GIT_DIR: '/no/such/repository' });
    // Git is asked about another repository, whose one commit has none of the files.
    const folder = temporaryFolder();
    const git = (...args: string[]) =>
      spawnSync('git', ['-c', 'user.name=a', '-c', 'user.email=b', ...args], { cwd: folder });
    git('init');
    git('commit', '--allow-empty', '-m', 'x');
    refused({ GIT_DIR: join(folder, '.git'), GIT_WORK_TREE: REPOSITORY });
  });

  it.each([
    [['--quick'], '--quick, --mooncake and --azure go with --run'],
    [['--run', 'x'], 'unexpected argument x'],
    [['a', 'b'], 'unexpected argument b'],
    [[BASELINE.replace('baseline', 'no-such')], 'ENOENT'],
  ])('is refused for %j', (args, message) => {
    const { status, stdout, stderr } = docs(args);
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
  });
});
