import { describe, expect, it } from 'vitest';
import { isQuick, share } from '../../support/share.js';
import { expectFoundAgain, expectGuarded } from '../shared/command.js';
import type { Tally } from '../shared/run.js';
import { PipelineLife } from './life.js';
import { PIPELINE_PLANTS } from './plants.js';
import { runPipelineSeed } from './run.js';
import { drawPipelineSetup } from './setup.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(12, 24));
const EVENTS = 200;
/** What a simulation is for: each of it must happen. */
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

describe('simulated lives of pipelines', () => {
  const total: Tally = {};

  for (let seed = 0; seed < SEEDS; seed++) {
    it(`seed ${seed}: every request has one end and the right text, and nothing is left of it`, async () => {
      const { failure, tally } = await runPipelineSeed(seed, { steps: EVENTS, without: [] });
      expect(failure?.message).toBeUndefined();
      for (const [what, count] of Object.entries(tally)) total[what] = (total[what] ?? 0) + count;
    });
  }

  it.skipIf(isQuick)('do everything that they are for', () => {
    for (const what of WANTED) expect(total[what] ?? 0, what).toBeGreaterThan(0);
  });

  it('are the same again from the same seed, to the last word', async () => {
    const journals: (readonly string[])[] = [];
    for (let run = 0; run < 2; run++) {
      const life = new PipelineLife(drawPipelineSetup(4));
      await life.run(150);
      journals.push(life.world.journal.slice());
      life.dispose();
    }
    expect(journals[0].length).toBeGreaterThan(20);
    expect(journals[1]).toEqual(journals[0]);
  });
});

describe('bugs planted in pipelines', () => {
  it.each(PIPELINE_PLANTS)('$name: its guard stands where it is taken out', expectGuarded);

  it.skipIf(isQuick)('one is found, and found again by the command that is told', () =>
    expectFoundAgain('keyIsId', 30, '--loop pipeline --plant keyIsId', '--steps', '200'),
  );
});
