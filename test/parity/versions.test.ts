// Decisions equal those of traces of August 2026; each trace of one rule cannot be replayed without
// it.
import { describe, expect, it } from 'vitest';
import { type Plan, Scheduler, type SchedulerOptions } from '../../src/index.js';
import { carryRules, type WithRules } from '../../src/scheduler/options/single-rules.js';
import { replay } from './driver.js';
import { augustFixtureNames, readFixture } from './fixtures.js';
import { mendedBut } from './options.js';
import { ReferenceScheduler } from './reference/scheduler.js';
import { report } from './report.js';
import { makeScheduler } from './scheduler-under-test.js';
import type { MakeSubject, Subject, SubjectOptions } from './subject.js';

/** Far below what the shortest trace has, far above what a replay that compares nothing would count. */
const COMPARISONS_PER_STEP = 13;

/**
 * The options that turn the rule of a trace back into that of May; null: blockstep has it whatever
 * the rules are.
 */
const BACK: Readonly<Record<string, Partial<WithRules<SchedulerOptions>> | null>> = {
  draftBudget: { draftSlots: 0 },
  dropStale: { preemptedOutputs: 'await' },
  freeFence: { fenceFrees: false },
  freeOrder: { freeOrder: 'tail' },
  freeOrderUncached: { freeOrder: 'tail' },
  grammarFailure: { grammarFailures: 'schedule' },
  handOver: mendedBut('clipHandOver'),
  loadReservation: { loadReservation: false },
  lookahead: { admissionLookahead: false },
  padDecode: { padDecode: false },
  preemptedIds: { preemptedIds: 'step' },
  priorityCursor: mendedBut('priorityCursor'),
  resetDiscard: null,
  sessionGate: { sessionSeats: 'running' },
  staleOutput: { preemptedOutputs: 'deliver' },
  watermark: { watermark: 0 },
};

/** A scheduler in which a forced reset drops nothing that is in flight. */
function makeForgetful(options: SubjectOptions): Subject {
  const scheduler = new Scheduler(carryRules(options as WithRules<SchedulerOptions>));
  const plans = new Set<Plan>();
  const { schedule, resetPrefixCache } = scheduler;
  scheduler.schedule = () => {
    const plan = schedule.call(scheduler);
    plans.add(plan);
    return plan;
  };
  scheduler.resetPrefixCache = (how) => {
    const done = resetPrefixCache.call(scheduler, how);
    for (const plan of plans) plan.dropped.fill(0);
    return done;
  };
  return scheduler as unknown as Subject;
}

describe("the scheduler decides what vLLM of August decides, with `like: '017e9f444'`", () => {
  it('has its fixtures', () => {
    expect(augustFixtureNames).toHaveLength(49);
    const rules = augustFixtureNames.filter((name) => name.startsWith('a_rule_'));
    expect(rules.map((name) => name.slice(7))).toEqual(Object.keys(BACK));
  });

  it.each(augustFixtureNames)('%s', (name) => {
    const trace = readFixture(name);
    const result = replay(trace, makeScheduler);
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.unsupported).toEqual([]);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(COMPARISONS_PER_STEP * result.steps);
  });

  it.each(Object.entries(BACK).filter(([, back]) => back !== null))(
    'not without the rule %s',
    (rule, back) => {
      const make: MakeSubject = (options) => makeScheduler({ ...options, ...back });
      expect(replay(readFixture(`a_rule_${rule}`), make).differences.length).toBeGreaterThan(0);
    },
  );

  it('not where a reset drops in batches, as in May, or drops nothing', () => {
    const trace = readFixture('a_rule_resetDiscard');
    const differences = (make: MakeSubject): number => replay(trace, make).differences.length;
    const reference = (resetsByTokens: boolean) => (options: SubjectOptions) =>
      new ReferenceScheduler({ ...options, preemptedOutputs: 'deliver', resetsByTokens } as SubjectOptions);
    expect(differences(reference(true))).toBe(0);
    expect(differences(reference(false))).toBeGreaterThan(0);
    expect(differences(makeForgetful)).toBeGreaterThan(0);
  });
});
