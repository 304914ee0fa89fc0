import { percent } from '../../base/inspect.js';
import type { Core } from '../../core/core.js';
import { Control } from '../../core/core.js';
import { usableBlocks } from '../../core/usable-blocks.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * The used fraction of the pool, in percent, as of the last native call. Reading it changes
 * nothing.
 */
export function kvUsage({ control, config }: Core): string {
  return percent(1 - control[Control.freeBlocks] / usableBlocks(config));
}

/** A scheduler's state in a few figures, for `util.inspect`. */
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
