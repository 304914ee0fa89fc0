import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { temporaryFolder } from '../../support/temp-file.js';

const OPENER = scriptArguments(import.meta.url, 'support/opener');

/** What a process says that opens a file more than once. It must not be ended by LMDB. */
function opened(path: string, ...rest: readonly string[]): string {
  const [maxBytes = `${2 ** 24}`, ...way] = rest;
  const { status, signal, stdout, stderr } = spawnSync(
    'sh',
    ['-c', 'ulimit -n 100 && exec "$@"', 'sh', process.execPath, ...OPENER, path, maxBytes, ...way],
    { encoding: 'utf8' },
  );
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' });
  return stdout.trim();
}

describe('a file of LMDB that cannot be opened', () => {
  it.each<[string, (path: string) => void, RegExp]>([
    ['its lock is a folder', (path) => mkdirSync(`${path}-lock`), /kv.lmdb could not be opened: EISDIR/],
    ['it is a folder', (path) => mkdirSync(path), /kv.lmdb could not be opened: EISDIR/],
    [
      'its folder is a file',
      (path) => writeFileSync(join(path, '..'), ''),
      /kv.lmdb could not be opened: (ENOTDIR|EEXIST)/,
    ],
  ])('does not end the process: %s', (_what, spoil, message) => {
    const folder = temporaryFolder();
    const path = join(folder, 'in', 'kv.lmdb');
    if (_what !== 'its folder is a file') mkdirSync(join(folder, 'in'));
    spoil(path);
    expect(opened(path)).toMatch(message);
  });

  it('does not end the process, and keeps its content, when its map finds no room', () => {
    const path = join(temporaryFolder(), 'kv.lmdb');
    expect(opened(path)).toBe('open');
    const before = readFileSync(path);
    expect(opened(path, `${2 ** 52}`)).toMatch(/kv.lmdb could not be opened: .+/);
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(join(path, '..')).filter((name) => name.includes('trial'))).toEqual([]);
  });

  it('does not end the process when there is no file descriptor left', () => {
    const path = join(temporaryFolder(), 'kv.lmdb');
    expect(opened(path)).toBe('open');
    expect(opened(path, `${2 ** 24}`, 'starved')).toMatch(/^Error: EMFILE.+\nopen$/);
  });
});
