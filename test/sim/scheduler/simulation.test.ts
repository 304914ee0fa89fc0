// A small share of the seeds: nothing breaks, all intended events happen, planted bugs are found,
// failures are made smaller.
import { describe, expect, it } from 'vitest';
import { isQuick, share } from '../../support/share.js';
import { NATIVE_PLANTS } from '../native-plants.js';
import { ALL_PLANTS, loopOf } from '../planted.js';
import { REQUIRED } from '../plants.js';
import { expectFoundAgain, expectGuarded, sim } from '../shared/command.js';
import { shrink } from '../shared/failure.js';
import { describeLives } from '../shared/lives.js';
import { plantInto } from '../shared/plant.js';
import type { Failure, Outcome, RunOptions } from '../shared/run.js';
import { drawSetup } from './draw-setup.js';
import { SCHEDULER_LOOP } from './run.js';
import { FAULTS, type Fault, type Setup } from './setup.js';

const SEEDS = Number(process.env['BLOCKSTEP_SEEDS'] ?? share(6, 70, 100));
/** The events that simulated lives are for: each of them must happen often. */
const WANTED = [
  ...[
    'numPreemptions',
    'prefixCacheHits',
    'externalHits',
    'droppedOutputs',
    'rowStalls',
    'specAcceptedTokens',
  ],
  ...['failedLoads', 'loadTimeouts', 'quarantines', 'loadsReclaimed', 'evictions'],
  ...['sessionChunks', 'sessionsReclaimed', 'streamingInputTimeouts', 'grammarTimeouts', 'grammarRejections'],
  ...['queueTimeouts', 'requestTimeouts'],
  ...['steadyEntries', 'repeatedSteps'],
  ...['chunk-unknown', 'chunk-not-resumable', 'chunk-after-end', 'duplicate-end', 'grammar-failed'],
  ...['stop', 'length', 'abort', 'error'],
  ...['stale-handle', 'duplicate-completion', 'live-completion', 'wrong-owner', 'invalid-block'],
  ...['borrower-failed', 'misplaced-request', 'purged-untracked', 'realigned-status'],
  ...['connector-failed', 'abort-unknown', 'abort-finished', 'duplicate-hold'],
];

describeLives(SCHEDULER_LOOP, { numSeeds: SEEDS, steps: 2000, wanted: WANTED, often: 5, again: [12, 500] });

describe('planted bugs', () => {
  it('are those that the design names, and more', () => {
    const names = ALL_PLANTS.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(REQUIRED));
    expect(new Set(names).size).toBe(names.length);
  });

  it.each([...ALL_PLANTS.filter((plant) => loopOf(plant) === 'scheduler'), ...NATIVE_PLANTS])(
    '$name: its guard stands where it is taken out',
    (plant) => {
      expectGuarded(plant);
      expect(() => plantInto('', plant)).toThrow(/has its text 0 times/);
    },
  );

  it.skipIf(isQuick).each(share(['F5'], ['F5'], ['F5', 'F10']))(
    '%s is found, told with what led to it, and found again by the command that is told',
    (name) => expectFoundAgain(name, 40, `--plant ${name}`),
  );
});

describe.skipIf(isQuick)('the command', () => {
  it('says what ran, in one process and in several', () => {
    expect(sim('--seeds', '3', '--steps', '200').stdout).toMatch(
      /^3 seeds from 0 on, 200 steps each: nothing broke/,
    );
    const shared = sim('--seeds', '4', '--first', '5', '--steps', '100', '--jobs', '2');
    expect(shared.stdout).toMatch(/2 seeds from 5 on/);
    expect(shared.stdout).toMatch(/2 seeds from 7 on/);
    expect(shared.status).toBe(0);
  });

  it.each([
    [['--seeds', '0'], /--seeds must be an integer from 1 on, got 0/],
    [['--without', 'rain'], /--without knows no fault rain/],
    [['--plant', 'F99'], /no plant F99/],
    [['--nonsense'], /nonsense/],
  ])('refuses %j', (args, message) => {
    const { status, stderr } = sim(...args);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
  });
});

describe('shrinking', () => {
  it('keeps what broke, with fewer events and fewer kinds of faults', async () => {
    const setup = drawSetup(3);
    for (const fault of FAULTS) setup.faults[fault] = 0.1;
    const fails = (steps: number, without: readonly Fault[], invariant: string): Failure<Setup, Fault> => {
      const left = { ...setup.faults };
      for (const fault of without) left[fault] = 0;
      return {
        ...{ seed: 3, step: Math.min(steps, 37), invariant, message: '', journal: [], without },
        setup: { ...setup, faults: left },
      };
    };
    // The failure needs late reports; without duplicates another invariant breaks.
    const run = (_: number, { steps, without }: RunOptions<Fault>): Outcome<Setup, Fault> => {
      if (without.includes('late')) return { failure: null, tally: {} };
      return { failure: fails(steps, without, without.includes('duplicate') ? 'I1' : 'I7'), tally: {} };
    };
    const { step, without } = await shrink(fails(2000, [], 'I7'), run);
    expect(step).toBe(37);
    expect(FAULTS.filter((fault) => !without.includes(fault))).toEqual(['late', 'duplicate']);
  });
});
