import { percent } from '../../base/inspect.js';
import type { Core } from '../../core/core.js';
import { Control } from '../../core/core.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** How much of the pool is in use, as of the last native call: to look changes nothing. */
export function kvUsage({ control, config }: Core): string {
  return percent(1 - control[Control.freeBlocks] / (config.numBlocks - 1));
}

/** What a scheduler is at, in a few figures. */
export function schedulerFacts(s: SchedulerState): object {
  const { queues, core, config } = s;
  return {
    running: queues.running.length,
    waiting: queues.waiting.length,
    skipped: queues.numSkipped,
    step: s.step,
    stepsInFlight: s.inFlight.length,
    kvUsage: kvUsage(core),
    numBlocks: config.numBlocks,
    policy: config.policy,
  };
}
