import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { benchPage } from '../../bench/report/page.js';
import { PEERS } from '../../bench/report/peers.js';
import { BASELINE, readResults } from '../../bench/results.js';
import { loadPlotLibrary } from '../../src/report/library.js';
import { useTempFiles } from '../cli/temp-file.js';

const write = useTempFiles();
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs the benchmark's command; nothing is measured here. */
function bench(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const main = fileURLToPath(new URL('../../bench/main.ts', import.meta.url));
  return spawnSync(process.execPath, ['--import', 'tsx', main, ...args], { encoding: 'utf8', cwd: ROOT });
}

describe('the page of the benchmark', () => {
  it('is made of a result without measuring anything', () => {
    const path = write('page.html', '');
    const { status, stdout } = bench('--from', BASELINE, '--report', path);
    expect([status, stdout]).toEqual([0, `written to ${path}\n`]);
    const page = readFileSync(path, 'utf8');
    expect(page).toContain(`npm run bench -- --from ${BASELINE}`);
    expect(page).toContain('The machines differ');
    for (const { name, points } of PEERS) {
      expect(page).toContain(`<strong>${name}</strong>`);
      for (const [, us] of points) expect(page).toContain(us.toLocaleString('en-US'));
    }
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
      expect(page).toContain(only === 'heap' ? '<h2>All of heap</h2>' : `id="group-${only}"`);
      expect(page).toContain('A quick run');
      expect(page.includes('id="scaling"')).toBe(only === 'decode');
      const markup = page.replace(/<script[^>]*>.*?<\/script>/gs, '');
      expect(markup).not.toMatch(/NaN|Infinity|undefined/);
    },
  );

  it.each([
    [['page.html'], 'unexpected argument page.html'],
    [['--report', 'a', 'b'], 'unexpected argument b'],
    [['--from', BASELINE], '--from goes with --report alone'],
    [['--from', BASELINE, '--report', 'a', '--quick'], '--from goes with --report alone'],
    [['--no-write', '--report'], '--no-write needs the path of the page'],
    [['--report', '/no/such/folder/a.html'], 'cannot be written: ENOENT'],
    [['--report', '/dev/null', '--from', BASELINE], 'it is no regular file'],
    [['--report', '--from', '/no/such.json'], 'cannot be written: ENOENT'],
  ])('is refused for %j', (args, message) => {
    const { status, stdout, stderr } = bench(...args);
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(message);
  });
});
