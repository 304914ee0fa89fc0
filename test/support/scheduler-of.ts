import type { Engine } from '../../src/index.js';
import type { Scheduler } from '../../src/scheduler/scheduler.js';

/** An engine's whole scheduler. Its type offers only a reader: a caller that changes it breaks the engine, which tests do on purpose. */
export function schedulerOf({ scheduler }: Engine): Scheduler {
  return scheduler as Scheduler;
}
