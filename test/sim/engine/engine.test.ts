import { describe, it } from 'vitest';
import { isQuick, share } from '../../support/share.js';
import { expectFoundAgain, expectGuarded } from '../shared/command.js';
import { describeLives } from '../shared/lives.js';
import { ENGINE_PLANTS } from './plants.js';
import { ENGINE_LOOP } from './run.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(12, 30));
/** What a simulation is for: each of it must happen often. */
const WANTED = [
  ...['stop', 'length', 'abort', 'abort with a reason', 'error', 'stops asked', 'stops refused'],
  ...['loads', 'synchronous loads', 'stores', 'stores dropped', 'hand-overs', 'settled stores', 'released'],
  ...['fenced', 'resets'],
  ...['chunk started', 'chunk queued', 'sessionChunks', 'sessionsReclaimed', 'grammarTimeouts'],
  ...['numPreemptions', 'prefixCacheHits', 'externalHits', 'droppedOutputs', 'specAcceptedTokens'],
  ...['failedLoads', 'loadTimeouts', 'quarantines', 'loadsReclaimed', 'evictions'],
  ...['queueTimeouts', 'requestTimeouts'],
  ...['stale-handle', 'duplicate-completion', 'wrong-owner', 'invalid-block', 'connector-failed'],
];

describeLives(ENGINE_LOOP, { numSeeds: SEEDS, steps: 2000, wanted: WANTED, often: 5, again: [12, 500] });

describe('bugs planted in the loop', () => {
  it.each(ENGINE_PLANTS)('$name: its guard stands where it is taken out', expectGuarded);

  it.skipIf(isQuick).each(share(['behindKeptBack'], ['behindKeptBack'], ['behindKeptBack', 'storesWrongKv']))(
    '%s is found, and found again by the command that is told',
    (name) => expectFoundAgain(name, 60, `--loop engine --plant ${name}`),
  );
});
