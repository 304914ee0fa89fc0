import '../support/gpu.js';
import { describeLives, RARE } from '../executors/reference/lives.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? 20);

describeLives(
  [...Array(SEEDS).keys(), ...RARE.filter((seed) => seed >= SEEDS)],
  { device: 'cuda' },
  'device',
);
