import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** One configuration for every suite. Forks, because a native addon is tested best in a process of its own. */
export default defineConfig({
  test: {
    root: fileURLToPath(new URL('..', import.meta.url)),
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/emulated-gpu.ts'],
    setupFiles:
      process.env['BLOCKSTEP_TEST_AUTHORITY'] === 'device' ? ['test/support/decide-on-device.ts'] : [],
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
