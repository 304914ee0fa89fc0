import { describe, expect, it } from 'vitest';
import { isQuick, share } from '../../support/share.js';
import { expectFoundAgain, expectGuarded } from '../shared/command.js';
import type { Tally } from '../shared/run.js';
import { drawEngineSetup } from './draw-setup.js';
import { EngineLife } from './life.js';
import { ENGINE_PLANTS } from './plants.js';
import { runEngineSeed } from './run.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(12, 30));
const STEPS = 2000;
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

describe('simulated lives of the engine', () => {
  const total: Tally = {};

  for (let seed = 0; seed < SEEDS; seed++) {
    it(`seed ${seed}: what must hold holds after every event, and every stream ends as it must`, async () => {
      const { failure, tally } = await runEngineSeed(seed, { steps: STEPS, without: [] });
      expect(failure?.message).toBeUndefined();
      for (const [what, count] of Object.entries(tally)) total[what] = (total[what] ?? 0) + count;
    });
  }

  it.skipIf(isQuick)('do everything that they are for', () => {
    for (const what of WANTED) expect(total[what] ?? 0, what).toBeGreaterThan(4);
  });

  it('are the same again from the same seed, to the last word', async () => {
    const journals: (readonly string[])[] = [];
    for (let run = 0; run < 2; run++) {
      const life = new EngineLife(drawEngineSetup(12));
      await life.run(500);
      journals.push(life.stage.journal.slice());
      life.dispose();
    }
    expect(journals[0].length).toBeGreaterThan(50);
    expect(journals[1]).toEqual(journals[0]);
  });
});

describe('bugs planted in the loop', () => {
  it.each(ENGINE_PLANTS)('$name: its guard stands where it is taken out', expectGuarded);

  it.skipIf(isQuick).each(share(['behindKeptBack'], ['behindKeptBack'], ['behindKeptBack', 'storesWrongKv']))(
    '%s is found, and found again by the command that is told',
    (name) => expectFoundAgain(name, 60, `--loop engine --plant ${name}`),
  );
});
