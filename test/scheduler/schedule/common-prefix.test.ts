// The common prefix of a plan is that of the native state behind it.
import { describe, expect, it } from 'vitest';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import { ConnectedLife } from '../../support/connector/connected-life.js';
import { MemorySink } from '../../support/recorded-log.js';
import { Life } from '../random-life.js';

// Lives in which it was stale once. Drafts look ahead to the pool's last slot, requests end behind
// the running ones, or a connector changes pins while it is asked.
const LIVES = [21, 58];
const CONNECTED = [42, 49, 80, 104, 118];

/** Expects a plan that was just made to agree with the native state. @returns that value */
function expectFresh({ numCommonPrefixBlocks }: Plan, scheduler: Scheduler): number {
  const [first] = scheduler.inspect().running;
  const counts = first !== undefined && scheduler.config.enablePrefixCaching;
  const slot = counts ? (scheduler.get(first)?.slot as number) : -1;
  const expected = counts ? scheduler.core.native.commonPrefix(slot) : 0;
  expect(numCommonPrefixBlocks).toBe(expected);
  return expected;
}

describe('the common prefix of a plan is that of the state it leaves', () => {
  it.each(LIVES)('in life %i', (seed) => {
    const life = new Life(seed);
    const { scheduler } = life.driver;
    const { schedule } = scheduler;
    let sum = 0;
    scheduler.schedule = () => {
      const plan = schedule.call(scheduler);
      sum += expectFresh(plan, scheduler);
      return plan;
    };
    life.run(150);
    expect(sum).toBeGreaterThan(0);
  });

  it.each(CONNECTED)('in life %i with a connector', (seed) => {
    let sum = 0;
    new ConnectedLife(seed, new MemorySink(), (plan, scheduler) => {
      sum += expectFresh(plan, scheduler);
    }).run(150);
    expect(sum).toBeGreaterThan(0);
  });
});
