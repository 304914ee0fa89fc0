// A report, page or log that cannot be written is refused or ends the program with exit code 1.
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { commandLine } from '../../src/cli/terminal/command-line.js';
import { compiledFolder } from '../support/compiled/compile-scripts.js';
import { useTempFiles, useTempFolders } from '../support/temp-file.js';
import { run } from './run-program.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const write = useTempFiles();
const folder = useTempFolders(write);

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
    const main = scriptArguments(import.meta.url, '../../src/cli/main');
    const command = [process.execPath, ...main, 'replay', '--record', path];
    const { status, stdout, stderr } = spawnSync('bash', ['-c', script, 'bash', ...command], {
      encoding: 'utf8',
      cwd: ROOT,
    });
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toContain(`ERR_BLOCKSTEP_BAD_FILE: ${path}: cannot be written: EFBIG`);
    expect(readdirSync(place)).toEqual([]);
  });
});

it('a page in a checkout that was not built says what to run, before anything else', async () => {
  const place = folder();
  cpSync(await compiledFolder(), place, { recursive: true });
  cpSync(join(ROOT, 'package.json'), join(place, 'package.json'));
  symlinkSync(join(ROOT, 'node_modules'), join(place, 'node_modules'));
  const main = join(place, 'src/cli/main.js');
  const path = join(place, 'page.html');
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, 'replay', '--report', path], {
    encoding: 'utf8',
    cwd: place,
  });
  expect([status, stdout]).toEqual([2, '']);
  const library = join(place, 'dist/report/plot-library.json');
  expect(stderr).toContain(`ERR_BLOCKSTEP_BAD_FILE: ${library}: cannot be read: Error: ENOENT`);
  expect(stderr).toContain('npm run build:ts');
  expect(readdirSync(place)).not.toContain('page.html');
});

it('a command line can be typed again', () => {
  const args = ['replay', 'a b', "it's", '$HOME', '', '--seed=1', '<'];
  const { stdout } = spawnSync('sh', ['-c', `printf '%s\\n' ${commandLine(args)}`], {
    encoding: 'utf8',
  });
  expect(stdout.slice(0, -1).split('\n')).toEqual(args);
});
