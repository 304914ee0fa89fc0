import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
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
        find: /^blockstep\/(connectors\/[a-z]+|pipeline\/redis|pipeline|testing)$/,
        replacement: source('$1/index.ts'),
      },
    ],
  },
  test: {
    root: fileURLToPath(new URL('..', import.meta.url)),
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/choose-gpu.ts', ...compileScripts()],
    setupFiles: setupFiles(),
    server: { deps: { external: [COMPILED] } },
    pool: 'forks',
    maxWorkers: '100%',
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

/** A copy of a part of the repository may have none of the suites that need it. */
function compileScripts(): string[] {
  const file = 'test/support/compiled/compile-scripts.ts';
  return existsSync(new URL(`../${file}`, import.meta.url)) ? [file] : [];
}
