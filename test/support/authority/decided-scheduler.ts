import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import { Scheduler } from '../../../src/scheduler/scheduler.js';

/** A scheduler whose GPU decides, for suites that do not wait: its `schedule()` waits in place. */
export class DecidedScheduler extends Scheduler {
  constructor(options: SchedulerOptions) {
    super({ ...options, authority: 'device' });
  }

  override schedule(): Plan {
    return this.authority.scheduleInPlace();
  }
}

/** A scheduler that suites can step without waiting, whoever decides. */
export function steppable(options: SchedulerOptions): Scheduler {
  return options.authority === 'device' ? new DecidedScheduler(options) : new Scheduler(options);
}
