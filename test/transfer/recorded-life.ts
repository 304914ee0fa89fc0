// A life with a connector, recorded.
import type { SchedulerOptions } from '../../src/index.js';
import { ConnectedLife } from '../support/connector/connected-life.js';
import { type Script, ScriptedConnector } from '../support/connector/scripted-connector.js';
import { Driver, describePlan } from '../support/driver.js';
import { MemorySink } from '../support/recorded-log.js';

export function recorded(
  seed: number,
  events = 250,
): { life: ConnectedLife; bytes: Uint8Array; plans: string[] } {
  const log = new MemorySink();
  const plans: string[] = [];
  const life = new ConnectedLife(seed, log, (plan, scheduler) => plans.push(describePlan(plan, scheduler)));
  life.run(events);
  return { life, bytes: log.bytes, plans };
}

/** A driver with a scripted connector, on record. */
export function connected(
  scripts: Record<string, Script>,
  options: Partial<SchedulerOptions> = {},
): { driver: Driver; connector: ScriptedConnector; log: MemorySink } {
  const log = new MemorySink();
  const connector = new ScriptedConnector(scripts, { protection: ['own', 'pin'] });
  return { driver: new Driver({ connector, log, ...options }), connector, log };
}
