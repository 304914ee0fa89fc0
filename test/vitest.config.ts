import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { COMPILED, compiledPackage } from './support/compiled/compiled-package.js';

/** The path of a file of `src`. */
function source(file: string): string {
  return `${fileURLToPath(new URL('../src', import.meta.url))}/${file}`;
}

/** Where the cores of the suites are kept, and who decides; bench/gpu/checks/suites.ts names suites that make sense so. */
function setupFiles(): string[] {
  const files: string[] = [];
  if (process.env['BLOCKSTEP_TEST_BACKEND'] === 'cuda') files.push('test/support/backend.ts');
  if (process.env['BLOCKSTEP_TEST_AUTHORITY'] === 'device') files.push('test/support/decide-on-device.ts');
  return files;
}

const SUITES = 'test/**/*.test.ts';

/**
 * Suites that leave nothing behind: no threads, no timers, no listeners, no environment. They share a process with what they import; to
 * start one and import again takes longer than many of them.
 */
const SHARING = [
  'test/executors/**/!(reference-executor).test.ts', // That one measures the memory of its process.
  'test/guards/*.test.ts',
  'test/misuse/!(lifetime).test.ts', // As this one.
  'test/parity/**/*.test.ts',
  'test/report/*.test.ts',
  'test/scheduler/**/*.test.ts',
];

/**
 * One configuration for every suite. Forks, because a native addon is tested best in a process of its own; one for each
 * processor, because no test measures time.
 */
export default defineConfig({
  // Setup files put other modules into the place of some of the package's, which only the module runner of vitest can do.
  plugins:
    setupFiles().length === 0 && process.env['BLOCKSTEP_TEST_SOURCES'] !== '1' ? [compiledPackage()] : [],
  // Examples name the package as its users do.
  resolve: {
    alias: [
      { find: /^blockstep$/, replacement: source('index.ts') },
      {
        find: /^blockstep\/(connectors\/[a-z]+|pipeline\/redis|pipeline|serve|testing)$/,
        replacement: source('$1/index.ts'),
      },
    ],
  },
  test: {
    root: fileURLToPath(new URL('..', import.meta.url)),
    globalSetup: ['test/support/choose-gpu.ts', ...compileScripts()],
    setupFiles: setupFiles(),
    server: { deps: { external: [COMPILED] } },
    pool: 'forks',
    maxWorkers: '100%',
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Setup files make each suite another one: then all are alone.
    ...(setupFiles().length === 0 ? { projects: projects() } : { include: [SUITES] }),
  },
});

/** They have what they extend too, so that it may include nothing. */
function projects(): TestProjectInlineConfiguration[] {
  return [
    { extends: true, test: { name: 'alone', include: [SUITES], exclude: SHARING } },
    { extends: true, test: { name: 'sharing', include: SHARING, isolate: false } },
  ];
}

/** A copy of a part of the repository may have none of the suites that need it. */
function compileScripts(): string[] {
  const file = 'test/support/compiled/compile-scripts.ts';
  return existsSync(new URL(`../${file}`, import.meta.url)) ? [file] : [];
}
