import { Scheduler } from '../../src/scheduler/scheduler.js';
import type { MakeSubject } from './subject.js';

/** Makes the scheduler that this package ships. */
export const makeScheduler: MakeSubject = (options) => new Scheduler(options);
