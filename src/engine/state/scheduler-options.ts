import { badArgument, show } from '../../base/errors.js';
import { SCHEDULER_OPTION_NAMES } from '../../scheduler/options/option-names.js';
import { ruledConfig, type SchedulerOptions } from '../../scheduler/options/options.js';
import { carryRules, rulesIn } from '../../scheduler/options/single-rules.js';
import { Scheduler } from '../../scheduler/scheduler.js';
import { refuseOtherGroups } from '../executor/executor-groups.js';
import { limited } from '../executor/executor-limits.js';
import { placed } from '../executor/executor-place.js';
import type { EngineConfig, EngineOptions } from './options.js';

/**
 * The scheduler of an engine.
 * @throws as `Scheduler`; ERR_BLOCKSTEP_BAD_ARG for an option that contradicts the executor or the workers
 */
export function openScheduler(options: EngineOptions, config: EngineConfig): Scheduler {
  const scheduler = new Scheduler(schedulerOptions(options, config));
  try {
    refuseOtherGroups(config.limits.kvGroups, ruledConfig(scheduler.config));
  } catch (error) {
    scheduler.dispose();
    throw error;
  }
  return scheduler;
}

/**
 * The options of an engine's scheduler: the engine's options, completed by its executor and its workers.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an option that contradicts the executor or the workers
 */
function schedulerOptions(options: EngineOptions, config: EngineConfig): SchedulerOptions {
  const here = withRanks(placed(ownOptions(options), config.place), config.workers.length);
  return limited(withReports(here, config.watchesBlocks), config.limits);
}

/** A copy of the scheduler's options among an engine's, each read once. */
function ownOptions(options: EngineOptions): SchedulerOptions {
  const own: Record<string, unknown> = carryRules(rulesIn(options));
  for (const name of Object.keys(SCHEDULER_OPTION_NAMES) as (keyof SchedulerOptions)[]) {
    const value = options[name];
    if (value !== undefined) own[name] = value;
  }
  return own as unknown as SchedulerOptions;
}

/**
 * The options of a scheduler whose connector has this number of workers: each worker is a rank.
 * Without workers `numRanks` stays unchanged.
 * @throws ERR_BLOCKSTEP_BAD_ARG if the options give another `numRanks`
 */
function withRanks(options: SchedulerOptions, numWorkers: number): SchedulerOptions {
  if (numWorkers === 0) return options;
  const { numRanks = numWorkers } = options;
  if (numRanks !== numWorkers) throw badArgument('numRanks', show(numRanks), `${numWorkers}, one a worker`);
  return { ...options, numRanks };
}

/**
 * The options of a scheduler whose plans list taken and forgotten blocks, if the executor watches
 * blocks.
 */
function withReports(options: SchedulerOptions, watchesBlocks: boolean): SchedulerOptions {
  return watchesBlocks ? { ...options, reportBlocks: true } : options;
}
