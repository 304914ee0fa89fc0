// The scheduler decides as vLLM did in every recorded trace.
import { describe, expect, it } from 'vitest';
import { thinned } from '../support/share.js';
import { replay } from './driver.js';
import { faultFixtureNames, fixtureNames, groupFixtureNames, readFixture } from './fixtures.js';
import { report } from './report.js';
import { makeScheduler } from './scheduler-under-test.js';

// Far below what the shortest fixture has, far above what a replay that compares nothing would count.
const COMPARISONS_PER_STEP = 20;

/** Ten steps, in which little but the state is recorded. */
const STATES_ALONE = 'h_mla_alone_cut';

describe('the scheduler decides what vLLM decides', () => {
  it('has its fixtures', () => {
    expect([fixtureNames.length, groupFixtureNames.length, faultFixtureNames.length]).toEqual([45, 34, 9]);
  });

  it.each([...fixtureNames, ...groupFixtureNames])('%s', (name) => {
    const trace = readFixture(name);
    const result = replay(trace, makeScheduler);
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.unsupported).toEqual([]);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(COMPARISONS_PER_STEP * result.steps);
  });

  const unread = [...fixtureNames, ...groupFixtureNames].filter((name) => name !== STATES_ALONE);
  it.each(thinned(unread, 1))('%s, when nobody reads the state between steps', (name) => {
    const trace = readFixture(name);
    const result = replay(trace, makeScheduler, { observe: 'plans' });
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(COMPARISONS_PER_STEP * result.steps);
  });
});
