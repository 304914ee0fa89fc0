// A small share of the seeds: nothing breaks, all intended events happen, a planted bug is found.
import { describe, it } from 'vitest';
import { isQuick, share } from '../../support/share.js';
import { expectFoundAgain, expectGuarded } from '../shared/command.js';
import { describeLives } from '../shared/lives.js';
import { PIPELINE_PLANTS } from './plants.js';
import { PIPELINE_LOOP } from './run.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(12, 24));
/** The events that simulated lives are for: each of them must happen. */
const WANTED = [
  ...['chunks', 'end stop', 'end length', 'end abort', 'end error', 'preemptions'],
  ...['fault late', 'fault lost', 'fault doubled', 'fault ghost', 'fault restart', 'fault silence'],
  ...[
    'fault clientDies',
    'failed: does not know',
    'failed: outputs did not come',
    'failed: has not answered',
  ],
];

describeLives(PIPELINE_LOOP, { numSeeds: SEEDS, steps: 200, wanted: WANTED, often: 1, again: [4, 150] });

describe('bugs planted in pipelines', () => {
  it.each(PIPELINE_PLANTS)('$name: its guard stands where it is taken out', expectGuarded);

  it.skipIf(isQuick)('one is found, and found again by the command that is told', () =>
    expectFoundAgain('keyIsId', 30, '--loop pipeline --plant keyIsId', '--steps', '200'),
  );
});
