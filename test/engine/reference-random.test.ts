import { describeLives, RARE } from './reference-lives.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? 60);

describeLives([...Array(SEEDS).keys(), ...RARE.filter((seed) => seed >= SEEDS)], {});
