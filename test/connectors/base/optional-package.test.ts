// A missing package is an error that names the package to install.
import { describe, expect, it } from 'vitest';
import type { BlockstepError } from '../../../src/base/errors.js';
import { optionalPackage } from '../../../src/base/packages/optional-package.js';

describe('a package that only some need', () => {
  it('is imported where it is there', async () => {
    const { readFileSync } = await optionalPackage<typeof import('node:fs')>('node:fs', '*', 'a test');
    expect(typeof readFileSync).toBe('function');
  });

  it('is an error that says what to install where it is not', async () => {
    const error = await optionalPackage('no-such-package', '^3.1.0', 'the store').catch((thrown) => thrown);
    const { code, message, cause } = error as BlockstepError;
    expect(code).toBe('ERR_BLOCKSTEP_NO_PACKAGE');
    expect(message).toContain(`the store needs the package no-such-package`);
    expect(message).toContain(`npm install no-such-package@'^3.1.0'`);
    expect(cause).toBeInstanceOf(Error);
    // A single version needs no quotes: a shell of Windows would take them for a part of it.
    const exact = await optionalPackage('no-such-package', '3.22.1', 'a model').catch((thrown) => thrown);
    expect((exact as BlockstepError).message).toMatch(/: npm install no-such-package@3\.22\.1$/);
  });
});
