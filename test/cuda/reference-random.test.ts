// Random lives of the reference executor on a GPU.
import '../support/gpu.js';
import { describeLives, RARE } from '../executors/reference/lives.js';
import { share } from '../support/share.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(8, 8, 20));

describeLives(
  [...Array(SEEDS).keys(), ...RARE.filter((seed) => seed >= SEEDS)],
  { device: 'cuda' },
  'device',
);
