import { BlockstepError } from '../../base/errors.js';
import type { EngineState } from '../state/engine-state.js';

/**
 * Notifies the connector and the workers that the engine is about to be disposed. Steps in flight
 * are abandoned. Every request ends, and the connector is notified of each end. The connector's
 * metadata for these ends reaches the workers with a last plan that has nothing to execute. After
 * an error the rest is skipped: the dispose that follows frees everything.
 *
 * While a GPU decides a plan, nobody is notified: the scheduler refuses every change then, and a
 * dispose does not wait.
 * @throws ERR_BLOCKSTEP_REENTRANT from inside a callback of the scheduler, with nothing changed
 */
export function sayFarewell(e: EngineState): void {
  const { scheduler, workers } = e;
  if (scheduler.config.connector === null || e.poison !== null) return;
  try {
    scheduler.abortAll();
    for (const step of e.flight) {
      const { plan, state } = step;
      scheduler.failStep(plan);
      // The workers abandon the transfers that began with the step. With a step that was kept back
      // none has begun.
      if (state === 'kept back') workers?.skip(step.finishedHandles);
      else workers?.end(plan);
    }
    scheduler.pause('all');
    if (workers === null) return;
    const plan = e.planInPlace();
    workers.planned(plan);
    workers.begin(plan, true);
    workers.collect();
  } catch (error) {
    if (error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_REENTRANT') throw error;
  }
}
