// Folders with their parents, and folders that cannot be made.
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder } from '../../src/base/make-folder.js';
import { temporaryFolder } from '../support/temp-file.js';

it('makes a folder with its parents, or finds it there', () => {
  const folder = join(temporaryFolder(), 'a', 'b', 'c');
  makeFolder(folder);
  makeFolder(folder);
  expect(statSync(folder).isDirectory()).toBe(true);
});

it('says which file is in its way', () => {
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  expect(() => makeFolder(join(file, 'a'))).toThrow(`EEXIST: file already exists, mkdir '${file}'`);
});

it.skipIf(!existsSync('/proc/self'))('returns where a file system has no folders of others', () => {
  expect(() => makeFolder('/proc/blockstep/a')).toThrow(/ENOENT/);
});
