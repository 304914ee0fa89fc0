// The scheduler decides as the reference under August's rules, and under single rules.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../../src/index.js';
import type { WithRules } from '../../../../src/scheduler/options/single-rules.js';
import { share, thinned } from '../../../support/share.js';
import { replay } from '../../driver.js';
import { mendedBut } from '../../options.js';
import { report } from '../../report.js';
import { makeScheduler } from '../../scheduler-under-test.js';
import type { MakeSubject, SubjectOptions } from '../../subject.js';
import type { Trace } from '../../trace.js';
import { generateDeepTrace, generateGroupTrace, generateTrace } from '../recorder.js';
import { ReferenceScheduler } from '../scheduler.js';
import type { Choice } from './draw-rules.js';

const TRACES = share(1, 3, 10);
const SEEDS = Array.from({ length: TRACES }, (_, i) => 5000 + i);

const PLAIN = 'with what every trace has';
const DEEP = 'three batches in flight';
const GROUPS = 'with KV cache groups';

/**
 * Workloads in which scheduler and reference once differed, or which hold rare events. Loads failed
 * over blocks that others read, or behind a step from before a preemption.
 */
const FOUND = [
  [PLAIN, 'august', 7150],
  [PLAIN, 'may', 20174],
  [PLAIN, 'may', 20223],
  [PLAIN, 'single', 20134],
  // An admission was padded up to the model's length.
  [PLAIN, 'august', 41178],
  // An empty batch ended a request whose grammar had failed, when the next one had been scheduled.
  [PLAIN, 'august', 5027],
  // A padded admission does not fit the budget.
  [PLAIN, 'august', 7021],
  // A request comes in with a single token while outputs of before its preemption are in flight: it is not padded.
  [DEEP, 'single', 7082],
  // A request is preempted when outputs that a reset dropped are still in flight.
  [DEEP, 'august', 7106],
  // A window let a block go into which a step in flight had loaded, and another load took it.
  [GROUPS, 'single', 823],
] as const;

/** Faults that the scheduler has too without its deviations. */
const FAULTS = { G2: true, G3: true, G9: true, G17: true };

const KINDS: Readonly<Record<string, (seed: number, choice: Choice) => Trace>> = {
  [PLAIN]: generateTrace,
  [DEEP]: generateDeepTrace,
  [GROUPS]: (seed, choice) => generateGroupTrace(seed, FAULTS, choice),
};

const CASES = Object.entries(KINDS).flatMap(([kind, generate]) =>
  (['august', 'single'] as const).map((choice) => ({ kind, choice, generate })),
);

function expectSame(trace: Trace): void {
  for (const observe of ['state', 'plans'] as const) {
    const result = replay(trace, makeScheduler, { observe });
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(result.steps);
  }
}

describe.each(CASES)(
  'the scheduler decides what the reference decides, $choice, $kind',
  ({ choice, generate }) => {
    it.each(SEEDS)('seed %i', (seed) => expectSame(generate(seed, choice)));
  },
);

it.each(thinned(FOUND, 1))(
  'the scheduler decides what the reference decides, %s, %s, seed %i',
  (kind, choice, seed) => expectSame(KINDS[kind](seed, choice)),
);

/** Each rule of August turned back, and a workload that shows it. */
const SHOWN: Readonly<
  Record<string, readonly [kind: string, seed: number, back: Partial<WithRules<SchedulerOptions>>]>
> = {
  freeOrder: [PLAIN, 5000, { freeOrder: 'tail' }],
  'freeOrder, caching off': [PLAIN, 5003, { freeOrder: 'tail' }],
  admissionLookahead: [PLAIN, 5006, { admissionLookahead: false }],
  watermark: [PLAIN, 5002, { watermark: 0 }],
  loadReservation: [PLAIN, 5001, { loadReservation: false }],
  draftSlots: [DEEP, 5008, { draftSlots: 0 }],
  padDecode: [DEEP, 5000, { padDecode: false }],
  fenceFrees: [PLAIN, 5013, { fenceFrees: false }],
  sessionSeats: [PLAIN, 5000, { sessionSeats: 'running' }],
  'preemptedOutputs await': [DEEP, 5000, { preemptedOutputs: 'deliver' }],
  'preemptedOutputs discard': [PLAIN, 5027, { preemptedOutputs: 'await' }],
  preemptedIds: [PLAIN, 5001, { preemptedIds: 'step' }],
  grammarFailures: [PLAIN, 5006, { grammarFailures: 'schedule' }],
  priorityCursor: [PLAIN, 5052, mendedBut('priorityCursor')],
  clipHandOver: [PLAIN, 5002, mendedBut('clipHandOver')],
  'loadReservation, with groups': [GROUPS, 5001, { loadReservation: false }],
  'fenceFrees, with groups': [GROUPS, 5001, { fenceFrees: false }],
  'clipHandOver, with groups': [GROUPS, 5001, mendedBut('clipHandOver')],
  windowBasis: [GROUPS, 5007, { windowBasis: 'scheduled' }],
  retention: [GROUPS, 5006, { retention: 'all' }],
  zeroAttention: [GROUPS, 5010, mendedBut('zeroAttention')],
  zeroUnloaded: [GROUPS, 5013, mendedBut('zeroUnloaded')],
  loadNeeded: [GROUPS, 5011, mendedBut('loadNeeded')],
  wholeStates: [GROUPS, 5007, mendedBut('wholeStates')],
  promptTails: [GROUPS, 5032, { promptTails: false }],
  stateLoads: [GROUPS, 5013, { stateLoads: false }],
};

describe('a workload under the rules of August', () => {
  const differences = (trace: Trace, make: MakeSubject): number => replay(trace, make).differences.length;

  it.each(thinned(Object.entries(SHOWN), 1, 1))('depends on %s', (name, [kind, seed, back]) => {
    const trace = KINDS[kind](seed, 'august');
    if (name.startsWith('freeOrder')) expect(trace.config.enable_prefix_caching).toBe(name === 'freeOrder');
    expect(differences(trace, makeScheduler)).toBe(0);
    expect(differences(trace, (options) => makeScheduler({ ...options, ...back }))).toBeGreaterThan(0);
  });

  it('depends on how a forced reset counts what it drops', () => {
    const trace = generateTrace(5036, 'august');
    const reference = (resetsByTokens: boolean) => (options: SubjectOptions) =>
      new ReferenceScheduler({ ...options, preemptedOutputs: 'deliver', resetsByTokens } as SubjectOptions);
    expect(differences(trace, makeScheduler)).toBe(0);
    expect(differences(trace, reference(true))).toBe(0);
    expect(differences(trace, reference(false))).toBeGreaterThan(0);
  });
});
