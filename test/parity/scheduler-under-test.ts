import type { SchedulerOptions } from '../../src/scheduler/options.js';
import { Scheduler } from '../../src/scheduler/scheduler.js';
import type { Subject } from './subject.js';

/** Makes the scheduler that this package ships. */
export const makeScheduler = (options: SchedulerOptions): Subject => new Scheduler(options);
