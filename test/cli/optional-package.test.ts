import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { importOptional } from '../../src/workload/optional-package.js';
import { useTempFiles } from './temp-file.js';

const write = useTempFiles();

describe('importOptional', () => {
  it('gives the module', async () => {
    const { basename } = await importOptional<typeof import('node:path')>('node:path', 'this test');
    expect(basename('/a/b')).toBe('b');
  });

  it.each([
    ['no-such-package', 'no-such-package'],
    ['no-such-package/part', 'no-such-package'],
    ['@no-such/package/part', '@no-such/package'],
  ])('names the package to install for %s', async (specifier, name) => {
    await expect(importOptional(specifier, 'the feature')).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_NO_PACKAGE',
      message: `the feature needs the package ${name}, which is not installed: npm install ${name}`,
    });
  });

  it('lets a package that is there but broken say so itself', async () => {
    const broken = pathToFileURL(write('broken.mjs', "import 'no-such-dependency';")).href;
    await expect(importOptional(broken, 'the feature')).rejects.toMatchObject({
      code: 'ERR_MODULE_NOT_FOUND',
    });
    const throwing = pathToFileURL(write('throwing.mjs', "throw new Error('its own words');")).href;
    await expect(importOptional(throwing, 'the feature')).rejects.toThrow('its own words');
  });
});
