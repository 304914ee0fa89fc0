import { describe, expect, it } from 'vitest';
import { thinned } from '../support/share.js';
import { replay } from './driver.js';
import { faultFixtureNames, fixtureNames, groupFixtureNames, readFixture } from './fixtures.js';
import { report } from './report.js';
import { makeScheduler } from './scheduler-under-test.js';

// Far below what the shortest fixture has, far above what a replay that compares nothing would count.
const COMPARISONS_PER_STEP = 20;

describe('the scheduler decides what vLLM decides', () => {
  it('has its fixtures', () => {
    expect([fixtureNames.length, groupFixtureNames.length, faultFixtureNames.length]).toEqual([45, 34, 4]);
  });

  it.each([...fixtureNames, ...groupFixtureNames])('%s', (name) => {
    const trace = readFixture(name);
    const result = replay(trace, makeScheduler);
    expect(result.differences, report(result).join('\n')).toEqual([]);
    expect(result.unsupported).toEqual([]);
    expect(result.steps).toBe(trace.steps.length);
    expect(result.comparisons).toBeGreaterThan(COMPARISONS_PER_STEP * result.steps);
  });

  it.each(thinned([...fixtureNames, ...groupFixtureNames], 1))(
    '%s, when nobody reads the state between steps',
    (name) => {
      const trace = readFixture(name);
      const result = replay(trace, makeScheduler, { observe: 'plans' });
      expect(result.differences, report(result).join('\n')).toEqual([]);
      expect(result.steps).toBe(trace.steps.length);
      expect(result.comparisons).toBeGreaterThan(COMPARISONS_PER_STEP * result.steps);
    },
  );
});
