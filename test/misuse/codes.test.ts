// Every error code is thrown, tested, and documented in docs/errors.md.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { BlockstepError, ERROR_CODES, type ErrorCode } from '../../src/index.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const codes = Object.keys(ERROR_CODES) as ErrorCode[];

/** All text of the files below a folder of the repository with one of these endings. */
function textOf(folder: string, endings: readonly string[]): string {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' });
  const wanted = names.filter(
    (name) => endings.some((ending) => name.endsWith(ending)) && !name.includes('build'),
  );
  return wanted.map((name) => readFileSync(join(root, folder, name), 'utf8')).join('\n');
}

const tests = textOf('test', ['.ts']);
const source = textOf('src', ['.ts']).replaceAll(readFileSync(join(root, 'src/base/errors.ts'), 'utf8'), '');
const native = textOf('native', ['.h', '.cc']);
const page = readFileSync(join(root, 'docs/errors.md'), 'utf8');

describe.each(codes)('%s', (code) => {
  it('is thrown by some code', () => {
    // In comments codes have no quotes; only thrown codes have them.
    expect(source.includes(`'${code}'`) || native.includes(`"${code}"`)).toBe(true);
  });

  it('is expected by some test', () => {
    expect(tests).toMatch(new RegExp(`['"]${code}['"]`));
  });

  it('has an entry in docs/errors.md that begins with what it means, and then says what to do', () => {
    const [, meaning, advice] =
      new RegExp(`^### ${code}\n\n(\\S[\\s\\S]*?)\n\n(\\S[\\s\\S]*?)\n(?=\n#|$)`, 'm').exec(page) ?? [];
    expect(meaning?.replaceAll('\n', ' ').toLowerCase()).toBe(`${ERROR_CODES[code]}.`.toLowerCase());
    expect(advice).toMatch(/\.$/);
  });
});

it('no code is used that is not in the table', () => {
  const used = new Set(`${source}\n${native}\n${tests}\n${page}`.match(/\bERR_BLOCKSTEP_[A-Z_]*[A-Z]\b/g));
  expect([...used].filter((code) => !codes.includes(code as ErrorCode))).toEqual([]);
});

it('an error has a name, a code and a cause', () => {
  const cause = new Error('why');
  const error = new BlockstepError(codes[0], 'what', { cause });
  expect(error).toBeInstanceOf(Error);
  expect([error.name, error.code, error.message, error.cause]).toEqual([
    'BlockstepError',
    codes[0],
    'what',
    cause,
  ]);
});
