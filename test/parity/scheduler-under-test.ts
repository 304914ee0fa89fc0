import type { SchedulerOptions } from '../../src/scheduler/options/options.js';
import { Scheduler } from '../../src/scheduler/scheduler.js';
import { DecidedScheduler } from '../support/authority/decided-scheduler.js';
import type { Feature } from './features.js';
import type { Subject } from './subject.js';

/** Makes the scheduler that this package ships. */
export const makeScheduler = (options: SchedulerOptions): Subject => new Scheduler(options);

/** The same on a GPU that decides. */
export const makeDecidedScheduler = (options: SchedulerOptions): Subject => new DecidedScheduler(options);

/** What it does not offer yet and the reference does. */
export const LACKS: readonly Feature[] = [];
