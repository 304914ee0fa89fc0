// A bundle has the files and packages that its programs import, and no others.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type Lock, packageClosure } from '../../bench/gpu/bundle/closure.js';
import { followImports } from '../../bench/gpu/bundle/imports.js';
import { TREE } from '../../bench/gpu/host/tree.js';

const LINUX = { os: 'linux', cpu: 'x64', libc: 'glibc' } as const;

const LOCK: Lock = {
  packages: {
    'node_modules/a': {
      dependencies: { b: '1' },
      optionalDependencies: { 'for-linux': '1', 'for-mac': '1', gone: '1' },
    },
    'node_modules/a/node_modules/b': { dependencies: { c: '1' } },
    'node_modules/b': { dependencies: { never: '1' } },
    'node_modules/c': {
      peerDependencies: { peer: '1', maybe: '1' },
      peerDependenciesMeta: { maybe: { optional: true } },
    },
    'node_modules/peer': { dependencies: { a: '1' } },
    'node_modules/maybe': {},
    'node_modules/for-linux': { os: ['linux'], cpu: ['x64'], libc: ['glibc'] },
    'node_modules/for-mac': { os: ['darwin'] },
  },
};

describe('the packages that a program needs', () => {
  it('are found where Node finds them, on this platform alone, and once', () => {
    expect(packageClosure(LOCK, ['a'], LINUX)).toEqual([
      'node_modules/a',
      'node_modules/a/node_modules/b',
      'node_modules/c',
      'node_modules/for-linux',
      'node_modules/peer',
    ]);
    expect(packageClosure(LOCK, ['a'], { ...LINUX, libc: 'musl' })).not.toContain('node_modules/for-linux');
    expect(packageClosure(LOCK, ['a'], { os: 'darwin', cpu: 'arm64', libc: null })).toContain(
      'node_modules/for-mac',
    );
  });

  it('must be in the lock', () => {
    expect(() => packageClosure(LOCK, ['b'], LINUX)).toThrow(
      'node_modules/b needs never, which the lock does not have',
    );
    expect(() => packageClosure(LOCK, ['x'], LINUX)).toThrow('the lock does not have x');
  });

  it('are few of those that this package is developed with', () => {
    const lock = JSON.parse(readFileSync(`${TREE}/package-lock.json`, 'utf8')) as Lock;
    const found = packageClosure(lock, ['vitest'], LINUX);
    expect(found).toContain('node_modules/vite');
    expect(found.filter((folder) => /echarts|playwright|biome|win32|darwin/.test(folder))).toEqual([]);
  });
});

describe('what a program is made of', () => {
  it('is what it imports, types aside', () => {
    const { files, packages } = followImports(TREE, ['bench/gpu/checks/sanitizers.ts']);
    expect(files).toContain('bench/gpu/checks/sanitizer-report.ts');
    expect(files).not.toContain('bench/gpu/bundle/bundle.ts');
    expect(packages).toEqual([]);
    expect(followImports(TREE, ['bench/gpu/bundle/imports.ts']).packages).toEqual(['typescript']);
    expect(followImports(TREE, ['bench/report/rows.ts']).packages).toEqual([]); // echarts only for its types
  });
});
