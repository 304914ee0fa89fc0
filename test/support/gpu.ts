// Suites that need a GPU import this module. They run on the GPU of this machine, or where there is
// none, on an emulated GPU (native/test/gpu_shim). Every load of the addon in this process then
// gets the addon over the emulator, which is built now if necessary.
import { buildEmulatedGpu, EMULATED_ADDON } from './emulated-gpu.js';

/** Whether the GPU is an emulated one, on which things can be made to go wrong. */
export const isEmulated = process.env['BLOCKSTEP_TEST_GPU'] === 'emulated';
if (isEmulated) {
  buildEmulatedGpu();
  process.env['BLOCKSTEP_ADDON'] = EMULATED_ADDON;
}

/**
 * The faults of the emulated GPU from now on (native/test/gpu_shim/runtime/faults.h), counted from
 * 0 again; '' for none. A device that was lost is there again.
 */
export function plant(faults: string): void {
  if (!isEmulated) throw new Error('a GPU does not fail on demand');
  process.env['EMULATED_GPU'] = faults;
}
