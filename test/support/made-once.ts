// Before all suites, makes files for several of them.
import { buildEmulatedGpu } from './emulated-gpu.js';
import { llamaForTests } from './llama/library.js';
import { areNamed, isQuick } from './share.js';

/**
 * Before all suites: makes what several of them need, so that no worker waits for another one that
 * makes it. Where a command names suites, the suites that need it make it themselves.
 */
export default function makeOnce(): void {
  if (areNamed) return;
  llamaForTests();
  if (!isQuick && process.env['BLOCKSTEP_TEST_GPU'] === 'emulated') buildEmulatedGpu();
}
