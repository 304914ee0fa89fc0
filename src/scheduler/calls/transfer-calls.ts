import { checkInteger } from '../../base/errors.js';
import type { ConnectorOutput } from '../connector/connector.js';
import { fenceTransfers as fenceUses } from '../loads/fence.js';
import { complete as completeUse, hold as holdUse } from '../loads/hold.js';
import type { OutstandingKind } from '../request/outstanding.js';
import { updateTransfers as updateFrom } from '../update/update.js';
import type { SchedulerCalls } from './scheduler-calls.js';
import { takeBlockUse, takeTransfers } from './validate.js';

/** See `Scheduler.updateTransfers`. */
export function updateTransfers(calls: SchedulerCalls, output: ConnectorOutput): void {
  calls.enter(() => {
    const s = calls.state;
    const reports = takeTransfers(s.anomalies, output);
    calls.aborts.drainInCall();
    calls.log?.transfers(s.now, reports, false);
    calls.gate.change(() => updateFrom(s, reports));
  });
}

/** See `Scheduler.fenceTransfers`. */
export function fenceTransfers(calls: SchedulerCalls, child: number | undefined, begunStep: number): number {
  return calls.enter(() => {
    const s = calls.state;
    const which = child === undefined ? undefined : checkInteger('child', child, 0, Number.MAX_SAFE_INTEGER);
    const begun = checkInteger('begunStep', begunStep, -1, Number.MAX_SAFE_INTEGER);
    calls.log?.fence(s.now, which, begun);
    return calls.gate.change(() => fenceUses(s, which, begun));
  });
}

/** See `Scheduler.hold`. */
export function hold(calls: SchedulerCalls, handle: number, kind: OutstandingKind, owner: string): boolean {
  return calls.enter(() => {
    const use = takeBlockUse(handle, kind, owner);
    calls.log?.hold(calls.state.now, use);
    return holdUse(calls.state, use);
  });
}

/** See `Scheduler.complete`. */
export function complete(
  calls: SchedulerCalls,
  handle: number,
  kind: OutstandingKind,
  owner: string,
): boolean {
  return calls.enter(() => {
    const use = takeBlockUse(handle, kind, owner);
    calls.log?.complete(calls.state.now, use);
    return completeUse(calls.state, use);
  });
}
