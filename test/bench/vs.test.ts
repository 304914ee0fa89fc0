// Two builds by turns: verdicts, options, refused checkouts.
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { stageOther } from '../../bench/vs/builds.js';
import { CASES } from '../../bench/vs/cases.js';
import { readVsOptions, VS_HELP } from '../../bench/vs/options.js';
import { compare, type Pair } from '../../bench/vs/verdict.js';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { addonPaths } from '../../src/core/loader.js';
import { isQuick } from '../support/share.js';
import { temporaryFolder } from '../support/temp-file.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MAIN = scriptArguments(import.meta.url, '../../bench/main');

/** Runs the benchmark's command. */
function bench(args: readonly string[], env: NodeJS.ProcessEnv = {}): SpawnSyncReturns<string> {
  const { BLOCKSTEP_ADDON: _, ...rest } = process.env;
  return spawnSync(process.execPath, [...MAIN, ...args], {
    encoding: 'utf8',
    cwd: ROOT,
    env: { ...rest, ...env },
  });
}

/** Another checkout as far as one sees that looks at its files. */
function outside(): string {
  const folder = join(temporaryFolder(), 'other');
  mkdirSync(join(folder, 'native', 'build', 'Release'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'blockstep', type: 'module' }));
  mkdirSync(join(folder, 'dist'));
  writeFileSync(join(folder, 'dist', 'index.js'), '');
  return folder;
}

/** Another checkout with this build in it. */
function checkout(): string {
  const folder = outside();
  const compiled = join(dirname(dirname(MAIN.at(-1) as string)), 'src');
  cpSync(compiled, join(folder, 'dist'), { recursive: true, filter: (path) => !path.endsWith('.map') });
  const addon = addonPaths(ROOT).find((path) => existsSync(path)) as string;
  cpSync(addon, join(folder, 'native', 'build', 'Release', 'blockstep.node'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Changes one script of a checkout. */
function edit(other: string, path: string, from: RegExp, to: string): void {
  const file = join(other, 'dist', path);
  const text = readFileSync(file, 'utf8');
  expect(text).toMatch(from);
  writeFileSync(file, text.replace(from, to));
}

describe('two builds by turns', () => {
  it.skipIf(isQuick)(
    'are measured in both orders, and this one beside itself; what one of them lacks is left out',
    () => {
      const other = checkout();
      edit(other, 'engine/engine.js', /^(\s+)submit\(/m, '$1submitted(');
      const cases = ['--only', 'hit-2048', '--only', 'submit'];
      const { status, stdout, stderr } = bench(['--vs', other, ...cases, '--quick']);
      const lacking = 'submit: not measured: the other build fails: engine.submit is not a function';
      expect(stderr).toMatch(new RegExp(`^hit-2048: [\\d.]+, (slower|faster|not shown)\n${lacking}\n$`));
      expect(status).toBe(1);
      expect(stdout).toContain(`other: ${other} at no commit, native/build/Release/blockstep.node of `);
      expect(stdout).toMatch(/│ hit-2048 │ +[\d.]+ │ +[\d.]+ │ +[\d.]+ │ +[\d.]+ │ +[\d.]+ \.\. [\d.]+ │/);
      expect(stdout).toMatch(/│ submit +│( +│)+ not measured │/);
    },
  );
});

describe('another checkout is refused', () => {
  it.each<[string, (other: string) => void, string]>([
    ['no checkout', (other) => rmSync(other, { recursive: true }), 'has no package.json'],
    [
      'another package',
      (other) => writeFileSync(join(other, 'package.json'), '{"name":"left-pad"}'),
      'is the package "left-pad": --vs wants a checkout of "blockstep"',
    ],
    [
      'one without a build',
      (other) => rmSync(join(other, 'dist'), { recursive: true }),
      'has no dist/index.js: run',
    ],
    ['one without an addon', () => {}, 'has no addon (native/build/Release/blockstep.node,'],
  ])('if it is %s', (_, spoil, message) => {
    const other = outside();
    spoil(other);
    expect(() => stageOther(other, join(other, 'copy'))).toThrow(`${other} ${message}`);
  });

  it.skipIf(isQuick)('if its addon is of another border', () => {
    const other = checkout();
    edit(other, 'core/loader.js', /const ABI = \d+/, 'const ABI = 999');
    const { status, stdout, stderr } = bench(['--vs', other, '--quick', '--only', 'submit']);
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^bench: the other build fails: .* has abi \d+, expected 999: rebuild it with "npm run build:native"\n$/,
    );
  });

  it('if both builds would load one addon', () => {
    const { status, stderr } = bench(['--vs', ROOT], { BLOCKSTEP_ADDON: '/some/addon.node' });
    const refusal = 'bench: BLOCKSTEP_ADDON is set: both builds would load that one addon. Unset it\n';
    expect([status, stderr]).toEqual([1, refusal]);
  });
});

describe('what all processes say', () => {
  const pair = (own: number, other: number): Pair => ({
    own: { p10: own, p50: 2 * own },
    other: { p10: other, p50: other },
  });
  const quiet = [pair(1, 1), pair(1.01, 1)];

  it('is a verdict where they agree beyond the control', () => {
    expect(compare([pair(12, 10), pair(11, 10)], quiet)).toEqual({
      other: 10,
      own: 11.5,
      p10: 1.15,
      p50: 2.3,
      range: [1.1, 1.2],
      control: [1, 1.01],
      verdict: 'slower',
    });
    expect(compare([pair(8, 10), pair(9, 10), pair(5, 10)], quiet)).toMatchObject({
      p10: 0.8,
      verdict: 'faster',
    });
  });

  it.each([
    ['one of them disagrees', [pair(12, 10), pair(10, 10)], quiet],
    ['the difference is below 2 %', [pair(1.015, 1), pair(1.018, 1)], [pair(1, 1)]],
    ['the control differs as much upwards', [pair(12, 10), pair(12, 10)], [pair(1.25, 1)]],
    ['the control differs as much downwards', [pair(12, 10), pair(12, 10)], [pair(0.8, 1)]],
    ['a faster one differs less than the control', [pair(9, 10), pair(9, 10)], [pair(1.2, 1)]],
  ])('is none where %s', (_, pairs, controls) => {
    expect(compare(pairs, controls).verdict).toBe('not shown');
  });
});

describe('its options', () => {
  const all = Object.keys(CASES);

  it('name one case, or those that begin alike', () => {
    const cases = (...args: string[]) => readVsOptions(['--vs', 'x', ...args])?.cases;
    expect(cases()).toEqual(all);
    expect(cases('--only', 'decode-1')).toEqual(['decode-1']);
    expect(cases('--only', 'engine', '--only', 'submit')).toEqual([
      'engine-1',
      'engine-64',
      'engine-256',
      'engine-1024',
      'submit',
    ]);
    expect(readVsOptions(['--vs', 'x'])).toMatchObject({ checkout: 'x', rounds: 2, quick: false });
    expect(readVsOptions(['--vs', 'x', '--quick'])).toMatchObject({ rounds: 1, quick: true });
  });

  it('are told by --help', () => {
    const { status, stdout } = bench(['--vs', 'x', '--help']);
    expect([status, stdout]).toEqual([0, `${VS_HELP}\n`]);
    for (const name of all) expect(stdout).toContain(name);
    expect(bench(['--help']).stdout).toContain('--vs CHECKOUT');
  });

  it.each([
    [['--only', 'nothing'], '--only must be a case or the beginning of one, got nothing: decode-1,'],
    [['--rounds', '0'], '--rounds must be a whole number from 1 to 20, got 0'],
    [['--rounds', '1.5'], 'got 1.5'],
    [['--report'], "Unknown option '--report'"],
  ])('are refused for %j', (args, message) => {
    expect(() => readVsOptions(['--vs', 'x', ...args])).toThrow(message);
  });
});
