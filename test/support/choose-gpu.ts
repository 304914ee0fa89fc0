import { probeBackends } from '../../src/core/placement.js';

/** Before all suites: where there is no GPU, those that need one are told to take an emulated one. */
export default function chooseGpu(): void {
  process.env['BLOCKSTEP_TEST_GPU'] ??= probeBackends()[1].usable ? 'real' : 'emulated';
}
