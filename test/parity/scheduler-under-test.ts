// Makes the scheduler that a trace is replayed on, on the host or decided by a GPU.
import type { SchedulerOptions } from '../../src/scheduler/options/options.js';
import { carryRules, type WithRules } from '../../src/scheduler/options/single-rules.js';
import { Scheduler } from '../../src/scheduler/scheduler.js';
import { DecidedScheduler } from '../support/authority/decided-scheduler.js';
import type { Feature } from './features.js';
import type { Subject } from './subject.js';

/** Makes the scheduler that this package ships. */
export const makeScheduler = (options: WithRules<SchedulerOptions>): Subject =>
  new Scheduler(carryRules(options));

/** The same on a GPU that decides. */
export const makeDecidedScheduler = (options: WithRules<SchedulerOptions>): Subject =>
  new DecidedScheduler(carryRules(options));

/** The features that the reference offers and the scheduler does not offer yet. */
export const LACKS: readonly Feature[] = [];
