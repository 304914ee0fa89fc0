import type { SchedulerOptions } from '../../src/index.js';
import { MemorySink } from '../scheduler/log/recorded-log.js';
import { Driver, describePlan } from '../scheduler/support.js';
import { ConnectedLife } from './connected-life.js';
import { type Script, ScriptedConnector } from './scripted-connector.js';

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
