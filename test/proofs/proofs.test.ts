// A proof must run when one of its inputs changes, and only then.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
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
  'native/core/blocks.h': '#include "../base/memory.h"\n',
  'native/base/memory.h': '',
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
    'native/base/memory.h',
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

  it('must run again when a kernel changes, those that are made of kernels and no others', () => {
    const kernel = here.at(['native/cuda/']).find((path) => path.endsWith('.cu')) as string;
    const record = hashesNow(NAMES, here);
    const edited = here.with(kernel, Buffer.from('// changed'));
    expect(dueProofs(hashesNow(NAMES, edited), record)).toEqual([
      'emulated-gpu',
      'native',
      'release',
      'bundle',
    ]);
  });

  it('refuses a place at which nothing is', () => {
    expect(() => inputsOf({ ...PROOF, suites: ['test/gone.test.ts'] }, checkout())).toThrow(
      /nothing is at test\/gone/,
    );
  });

  // The dependencies that a compiler has written down say whether the folders that proofs name are all.
  it.for([
    ['release', 'native/build', 'nothing'],
    // A machine with CUDA builds more than a proof on the host needs.
    ['plants', 'native/build', 'cuda|llama'],
    ['emulated-gpu', 'native/build-emulated', 'llama'],
  ] as const)(
    '%s is made of all sources that the compiler read for %s, but for %s',
    ([name, folder, other], { skip }) => {
      const read = sourcesRead(join(ROOT, folder)).filter(
        (path) => !new RegExp(`^native/(${other})/`).test(path),
      );
      skip(read.length === 0, `${folder} was not built by ninja`);
      const inputs = new Set(inputsOf(PROOFS[name], here));
      expect(read.filter((path) => !inputs.has(path))).toEqual([]);
      expect(read.length).toBeGreaterThan(100);
    },
  );
});

/** The sources of native code that the compilers of a build by ninja have read; empty: there is none. */
function sourcesRead(build: string): string[] {
  if (!existsSync(join(build, '.ninja_deps'))) return [];
  const program = /^CMAKE_MAKE_PROGRAM:FILEPATH=(.+)$/m.exec(
    readFileSync(join(build, 'CMakeCache.txt'), 'utf8'),
  );
  const listed = execFileSync(program?.[1] ?? 'ninja', ['-C', build, '-t', 'deps'], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  const paths = listed.split('\n').map((line) => relative(ROOT, resolve(build, line.trim())));
  // An older build has read files that are gone.
  return [...new Set(paths)].filter(
    (path) => /^native\/(?!build)/.test(path) && existsSync(join(ROOT, path)),
  );
}
