import { probeBackends } from '../../src/core/placement.js';

/**
 * Before all suites: where there is no GPU, suites that need a GPU are told to use an emulated GPU.
 */
export default function chooseGpu(): void {
  process.env['BLOCKSTEP_TEST_GPU'] ??= probeBackends()[1].usable ? 'real' : 'emulated';
}
