import type { SchedulerCalls } from '../calls/scheduler-calls.js';
import type { Plan } from '../plan/plan.js';
import { schedule } from '../schedule/schedule.js';
import type { Authority } from './authority.js';
import { DeviceAuthority } from './device-authority.js';
import { HostAuthority } from './host-authority.js';

/** The authority that a scheduler's option `authority` names. */
export function chooseAuthority(calls: SchedulerCalls): Authority {
  const { authority } = calls.state.config.placement;
  return authority === 'device' ? new DeviceAuthority(calls) : new HostAuthority(() => scheduleOnHost(calls));
}

function scheduleOnHost(calls: SchedulerCalls): Plan {
  const repeated = calls.repeat === null ? null : calls.repeat.plan();
  if (repeated !== null) return repeated;
  return calls.enter(() => {
    calls.beginStep();
    return calls.gate.change(() => schedule(calls.state));
  });
}
