// With KV cache groups, decisions equal those of traces of August 2026.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../src/index.js';
import type { WithRules } from '../../src/scheduler/options/single-rules.js';
import { thinned } from '../support/share.js';
import { replay } from './driver.js';
import { augustGroupFixtureNames, readFixture } from './fixtures.js';
import { mendedBut } from './options.js';
import { ReferenceScheduler } from './reference/scheduler.js';
import { report } from './report.js';
import { makeScheduler } from './scheduler-under-test.js';
import type { MakeSubject } from './subject.js';

/** Far below what the shortest trace has, far above what a replay that compares nothing would count. */
const COMPARISONS_PER_STEP = 7;

/** The options that turn the rule of a trace back into that of May. */
const BACK: Readonly<Record<string, Partial<WithRules<SchedulerOptions>>>> = {
  alignExternal: { stateLoads: false },
  alignExternal_2: { stateLoads: false },
  capInFlight: { windowBasis: 'scheduled' },
  clipAll: mendedBut('clipHandOver'),
  dropProcessed: { windowBasis: 'scheduled' },
  extSkip: mendedBut('loadNeeded'),
  fenceOrder: { fenceFrees: false },
  finishProcessed: { windowBasis: 'scheduled' },
  mambaDrop: { windowBasis: 'scheduled' },
  promptTails: { promptTails: false },
  retention_states: { retention: 'all' },
  retention_window: { retention: 'all' },
  split: mendedBut('wholeStates'),
  windowOne: { retention: 'all' },
  zeroAll: mendedBut('zeroAttention'),
  zeroSkip: mendedBut('zeroUnloaded'),
};

const ofRules = augustGroupFixtureNames.filter((name) => name.startsWith('g_rule_'));
const others = augustGroupFixtureNames.filter((name) => !name.startsWith('g_rule_'));

describe("with KV cache groups, and `like: '017e9f444'`, the scheduler decides what vLLM of August decides", () => {
  it('has its fixtures', () => {
    expect(ofRules.map((name) => name.slice(7))).toEqual(Object.keys(BACK));
    expect(others).toHaveLength(37);
  });

  const makers: readonly [string, MakeSubject][] = [
    ['the scheduler', makeScheduler],
    ['the reference', (options) => new ReferenceScheduler(options)],
  ];
  for (const [who, make] of makers) {
    it.each([...ofRules, ...thinned(others, 3)])(`${who}: %s`, (name) => {
      const trace = readFixture(name);
      const result = replay(trace, make);
      expect(result.differences, report(result).join('\n')).toEqual([]);
      expect(result.steps).toBe(trace.steps.length);
      expect(result.comparisons).toBeGreaterThan(COMPARISONS_PER_STEP * result.steps);
    });
  }

  it.each(Object.entries(BACK))('not without the rule %s', (rule, back) => {
    const make: MakeSubject = (options) => makeScheduler({ ...options, ...back });
    expect(replay(readFixture(`g_rule_${rule}`), make).differences.length).toBeGreaterThan(0);
  });
});
