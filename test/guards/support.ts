// Helpers of several tests.
import { expect } from 'vitest';
import type { ConnectorOutput } from '../../src/connector.js';
import type { Plan, Scheduler } from '../../src/index.js';
import type { RemoteDriver } from './remote.js';

/** Pipeline depths (steps in flight) at which each failure is tested. */
export const DEPTHS = [1, 2] as const;

/** How a report comes: with the update of a step, or while no step is there. */
export const WAYS = ['with a step', 'without a step'] as const;

/** Everything that an event from outside could change, as text; anomalies are what it may leave behind. */
export function stateOf(scheduler: Scheduler): string {
  const { anomalies: _anomalies, outstanding, ...stats } = scheduler.stats();
  const { requests, draining, quarantined, ...queues } = scheduler.inspect();
  const known = [...requests, ...draining, ...quarantined].map((request) => {
    const { handle, status, container, numTokens, numComputedTokens, deadline, load } = request;
    const uses = request.outstanding?.describe() ?? [];
    return { handle, status, container, numTokens, numComputedTokens, deadline, failed: load?.failed, uses };
  });
  const uses = Object.values(outstanding).map(({ count }) => count);
  return JSON.stringify([stats, queues, known, uses, String(scheduler.digest())], null, 1);
}

/** Expects that an event changed nothing but the count of anomalies, and that all invariants hold. */
export function expectUnchanged(scheduler: Scheduler, event: () => void): void {
  const before = stateOf(scheduler);
  event();
  scheduler.verify();
  expect(stateOf(scheduler)).toBe(before);
}

/** Reports, either with the update of the oldest step in flight, or without one. */
export function report(driver: RemoteDriver, way: (typeof WAYS)[number], output: ConnectorOutput): void {
  if (way === 'without a step') driver.say(output);
  else {
    driver.report = output;
    driver.update();
    driver.scheduler.verify();
  }
}

/** Expects that a request got all of its text, and that its end was reported once. */
export function expectText(driver: RemoteDriver, handle: number, count: number): void {
  expect(driver.text(handle)).toEqual(driver.model.text(handle, count));
  expect(driver.ends.get(handle)).toEqual(['length']);
}

/** `requestFinished` as it was called for one id: `finished id reason blocks`. */
export function callbacks(driver: RemoteDriver, id: string): string[] {
  return driver.connector.calls.filter((call) => call.startsWith(`finished ${id} `));
}

/** Schedules until something is computed, and leaves that in flight. */
export function scheduleWork(driver: RemoteDriver): Plan {
  const plan = driver.schedule();
  expect(plan.totalTokens).toBeGreaterThan(0);
  return plan;
}

/** All orders of the given items. */
export function orders<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) =>
    orders([...items.slice(0, i), ...items.slice(i + 1)]).map((rest) => [item, ...rest]),
  );
}
