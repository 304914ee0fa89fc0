// A setup file: every core gets a mirror on a GPU.
import { vi } from 'vitest';
import { BlockstepError } from '../../src/base/errors.js';
import type { NativeCore } from '../../src/core/native/native.js';
import type { PlacementOptions } from '../../src/core/placement.js';

/**
 * With BLOCKSTEP_TEST_BACKEND=cuda (see ../vitest.config.ts) every core that a suite makes without saying where gets a
 * mirror on the GPU. Nothing else in a suite changes. The whole mirror is always compared with the
 * host before the core ends. It is also compared from time to time, when the suite has the host's
 * invariants checked. A difference fails the test.
 */
const PATIENCE_MS = 20_000;
/** Every so many calls of `verify` compare the mirror too: random suites call it after everything that they do. */
const EVERY = Number(process.env['BLOCKSTEP_TEST_DIGEST_EVERY'] ?? 8);

vi.mock('../../src/core/placement.js', async (original) => {
  const actual = await original<typeof import('../../src/core/placement.js')>();
  // The first context on a GPU takes some tenths of a second and memory of the host: not in the middle of a test.
  actual.probeBackends();
  return {
    ...actual,
    resolvePlacement: (options: PlacementOptions) => actual.resolvePlacement(onCuda(options)),
    createNative: (...args: Parameters<typeof actual.createNative>) => {
      const made = actual.createNative(...args);
      if (made.backend.name === 'cuda') watch(made.native);
      return made;
    },
  };
});

/** The options as they are, their properties still read once each; with the back end that is wanted where none is named. */
function onCuda(options: PlacementOptions): PlacementOptions {
  const { backend, authority, device, stream } = options;
  const named = backend !== undefined || device !== undefined;
  return { backend: named ? backend : 'cuda', authority, device, stream } as PlacementOptions;
}

/**
 * Compares the mirror of this core with the core. The methods are replaced on the object alone.
 * Like native ones they may be called with any receiver, which is then refused.
 */
function watch(native: NativeCore): void {
  const { verify, dispose } = native;
  let verifications = 0;
  let disposed = false;
  Object.defineProperty(native, 'verify', {
    value: function (this: NativeCore): void {
      verify.call(this);
      if (++verifications % EVERY === 0) compareMirror(native);
    },
  });
  Object.defineProperty(native, 'dispose', {
    value: function (this: NativeCore): void {
      if (this === native && !disposed) {
        compareIfSound(native);
        disposed = true;
      }
      dispose.call(this);
    },
  });
}

/** A core that was poisoned on purpose refuses everything; it has nothing to be compared. */
function compareIfSound(native: NativeCore): void {
  try {
    native.flush();
  } catch (error) {
    if (error instanceof BlockstepError && error.code !== 'ERR_BLOCKSTEP_MIRROR') return;
    throw error;
  }
  compareMirror(native);
}

function compareMirror(native: NativeCore): void {
  native.submit();
  waitFor(() => native.poll()); // for a digest, too, that the suite asked for
  native.startMirrorDigest();
  waitFor(() => native.mirrorDigest() !== null);
  if (native.mirrorDigest() !== native.digest()) throw new Error('the mirror is not what the host is');
}

function waitFor(done: () => boolean): void {
  const start = performance.now();
  while (!done()) {
    if (performance.now() - start > PATIENCE_MS) throw new Error('the GPU did not answer');
  }
}
