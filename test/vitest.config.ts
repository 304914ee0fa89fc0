// The configuration of all suites.
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { suitesApart } from './proofs/proofs.js';
import { COMPILED, compiledPackage } from './support/compiled/compiled-package.js';
import { entryPoints } from './support/entry-points.js';
import { areNamed, isQuick } from './support/share.js';
import { PATIENCE_MS } from './support/waiting.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/**
 * The place of the cores of the suites, and the side that decides; bench/gpu/checks/suites.ts names
 * suites that make sense so.
 */
function setupFiles(): string[] {
  const files: string[] = [];
  if (process.env['BLOCKSTEP_TEST_BACKEND'] === 'cuda') files.push('test/support/backend.ts');
  if (process.env['BLOCKSTEP_TEST_AUTHORITY'] === 'device')
    files.push('test/support/authority/decide-on-device.ts');
  return files;
}

const SUITES = 'test/**/*.test.ts';

/** Files that several suites need are made before all of them. */
const MADE_ONCE = ['test/support/compiled/compile-scripts.ts', 'test/support/made-once.ts'];

/** Suites that this run leaves out: those of proofs of their own in `npm test`, but not where a command names suites. */
function left(): string[] {
  return isQuick && !areNamed ? suitesApart().map((place) => place.replace(/\/$/, '/**')) : [];
}

/**
 * Suites that each have a process of their own: they measure it, break its GPU, or load what others
 * must not find. All others share a process and their imports, so they leave nothing behind. To
 * start a process and import again takes longer than many of them.
 */
const ALONE = [
  'test/**/*lifetime.test.ts',
  'test/**/browser/*.test.ts',
  'test/{cuda,package}/**/*.test.ts',
  'test/house.test.ts',
  // The memory, the listeners and the open handles of the process.
  'test/executors/reference/{dispose,reference-executor}.test.ts',
  'test/pipeline/redis/faults.test.ts',
  'test/serve/clients.test.ts',
];

/**
 * One configuration for every suite. Forks, because a native addon is tested best in a process of
 * its own. More forks than processors, because many suites wait for servers and other processes,
 * and no test measures time.
 */
export default defineConfig({
  // Setup files put other modules into the place of some of the package's, which only the module runner of vitest can do.
  plugins:
    setupFiles().length === 0 && process.env['BLOCKSTEP_TEST_SOURCES'] !== '1' ? [compiledPackage()] : [],
  // Examples name the package as its users do.
  resolve: {
    alias: [...entryPoints(readFileSync(`${ROOT}package.json`, 'utf8'))].map(([name, path]) => ({
      find: new RegExp(`^${name}$`),
      replacement: `${ROOT}${path}`,
    })),
  },
  test: {
    root: ROOT,
    globalSetup: ['test/support/share.ts', 'test/support/choose-gpu.ts', ...present(MADE_ONCE)],
    setupFiles: setupFiles(),
    server: { deps: { external: [COMPILED] } },
    pool: 'forks',
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    // More than a test is patient for, so that it says what did not come.
    testTimeout: 2 * PATIENCE_MS,
    hookTimeout: 2 * PATIENCE_MS,
    // Setup files make each suite another one: then all are alone.
    ...(setupFiles().length === 0 ? { projects: projects() } : { include: [SUITES], exclude: left() }),
  },
});

/** They have what they extend too, so that it may include nothing. */
function projects(): TestProjectInlineConfiguration[] {
  return [
    { extends: true, test: { name: 'alone', include: ALONE, exclude: left() } },
    {
      extends: true,
      test: { name: 'sharing', include: [SUITES], exclude: [...ALONE, ...left()], isolate: false },
    },
  ];
}

/** A copy of a part of the repository may have none of the suites that need them. */
function present(files: readonly string[]): string[] {
  return files.filter((file) => existsSync(new URL(`../${file}`, import.meta.url)));
}
