// Random lives have right texts, and nothing is found in them.
import { share } from '../../support/share.js';
import { describeLives, RARE } from './lives.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(20, 60));

describeLives([...Array(SEEDS).keys(), ...RARE.filter((seed) => seed >= SEEDS)], {});
