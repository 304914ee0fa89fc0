import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/temp-file.js';
import { Checkout, hashOf, inputsOf } from './inputs.js';
import { PROOFS, type Proof } from './proofs.js';
import { dueProofs, hashesNow, NAMES, readRecord, writeRecord } from './record.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const here = Checkout.of(ROOT);

/** A checkout of a proof of its own: a suite that imports a helper, and a native file. */
const PROOF: Proof = {
  what: 'something',
  suites: ['test/room/deep/a.test.ts'],
  isApart: true,
  beside: ['native/core/'],
};
const FILES: Readonly<Record<string, string>> = {
  'package-lock.json': '{}',
  'package.json':
    '{"exports":{".":{"default":"./dist/index.js"},"./part":{"default":"./dist/base/part.js"}}}',
  'tsconfig.json': '{}',
  'test/vitest.config.ts': '',
  'test/support/compiled/compile.ts': '',
  'test/support/entry-points.ts': '',
  'test/room/deep/a.test.ts': "import type { Thing } from '../../../src/base/thing.js';\n",
  'test/room/deep/child.mjs': 'started by the suite',
  'test/room/deep/README.md': 'what it is',
  'test/room/other.test.ts': '',
  'src/base/thing.ts': "export { part } from './part.js';\n",
  'src/base/part.ts': '',
  'src/base/unused.ts': '',
  'native/core/blocks.h': '',
  'native/cuda/kernel.cu': '',
};

function checkout(changes: Readonly<Record<string, string>> = {}): Checkout {
  const files = { ...FILES, ...changes };
  return new Checkout(Object.keys(files), (path) => Buffer.from(files[path]));
}

const before = hashOf(PROOF, checkout(), ['node 20']);

describe('a proof must run', () => {
  it.each([
    'test/room/deep/a.test.ts',
    'test/room/deep/child.mjs',
    'src/base/thing.ts',
    'src/base/part.ts',
    'native/core/blocks.h',
    'package-lock.json',
    'test/support/compiled/compile.ts',
  ])('when %s changes', (path) => {
    expect(hashOf(PROOF, checkout({ [path]: `${FILES[path]} ` }), ['node 20'])).not.toBe(before);
  });

  it('when a file comes to what it is made of, or another version of a tool', () => {
    expect(hashOf(PROOF, checkout({ 'native/core/more.h': '' }), ['node 20'])).not.toBe(before);
    expect(hashOf(PROOF, checkout(), ['node 22'])).not.toBe(before);
  });

  it('when an entry point of the package changes that a suite names as users do', () => {
    const suite = { 'test/room/deep/a.test.ts': "import 'blockstep/part';\n" };
    const part = { 'src/base/part.ts': 'changed' };
    expect(hashOf(PROOF, checkout({ ...suite, ...part }), ['node 20'])).not.toBe(
      hashOf(PROOF, checkout(suite), ['node 20']),
    );
  });

  it.each([
    'test/room/other.test.ts',
    'src/base/unused.ts',
    'native/cuda/kernel.cu',
    'test/room/deep/README.md',
  ])('but not when %s changes', (path) =>
    expect(hashOf(PROOF, checkout({ [path]: 'x' }), ['node 20'])).toBe(before),
  );

  it('until it was written down that it holds, and where the record is damaged', () => {
    const file = join(temporaryFolder(), 'record.json');
    const now = hashesNow(NAMES, here);
    expect(dueProofs(now, readRecord(file))).toEqual(NAMES);
    writeRecord({ oracle: now.oracle, pages: 'of other sources' }, file);
    expect(dueProofs(now, readRecord(file))).toEqual(NAMES.filter((name) => name !== 'oracle'));
    writeRecord({ pages: now.pages }, file);
    expect(dueProofs(now, readRecord(file))).toEqual(
      NAMES.filter((name) => name !== 'oracle' && name !== 'pages'),
    );
  });
});

describe('the proofs of this repository', () => {
  it.each(NAMES)('%s names places that exist, and is made of more than its suites', (name) => {
    const inputs = inputsOf(PROOFS[name], here);
    expect(inputs.length).toBeGreaterThan(30);
  });

  it('refuses a place at which nothing is', () => {
    expect(() => inputsOf({ ...PROOF, suites: ['test/gone.test.ts'] }, checkout())).toThrow(
      /nothing is at test\/gone/,
    );
  });

  // What compilers have read says whether the folders that proofs name are all.
  it.each([
    ['plants', 'native/build'],
    ['emulated-gpu', 'native/build-emulated'],
  ] as const)('%s is made of all sources that the compiler read for %s', (name, folder) => {
    const build = join(ROOT, folder);
    if (!existsSync(build)) return;
    const inputs = new Set(inputsOf(PROOFS[name], here));
    const read = readdirSync(build, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.d') && !/llama/.test(path))
      .flatMap((path) => readFileSync(join(build, path), 'utf8').split(/[\s\\:]+/))
      .map((path) => relative(ROOT, join(ROOT, relative(ROOT, path))))
      .filter((path) => /^native\/(?!build)/.test(path));
    for (const path of new Set(read)) expect(inputs.has(path), path).toBe(true);
  });
});
