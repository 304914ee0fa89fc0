import type { DecidedCalls } from '../../../src/scheduler/authority/decided-calls.js';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import { Scheduler } from '../../../src/scheduler/scheduler.js';

/** The calls by which the GPU of a scheduler makes its plans. */
export function decidedCalls({ decided }: Scheduler): DecidedCalls {
  if (decided === null) throw new Error('the host decides');
  return decided;
}

/** A scheduler whose GPU decides, for suites that do not wait: its `schedule()` waits in place. */
export class DecidedScheduler extends Scheduler {
  constructor(options: SchedulerOptions) {
    super({ ...options, authority: 'device' });
  }

  override schedule(): Plan {
    return decidedCalls(this).scheduleInPlace();
  }
}

/** A scheduler that suites can step without waiting, under both authorities. */
export function steppable(options: SchedulerOptions): Scheduler {
  return options.authority === 'device' ? new DecidedScheduler(options) : new Scheduler(options);
}
