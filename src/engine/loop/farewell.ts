import { BlockstepError } from '../../base/errors.js';
import type { EngineState } from '../state/engine-state.js';

/**
 * Ends every request of an engine that is about to be disposed, so that its connector hears of each end, and hands what the
 * connector says to that to the workers: a last plan with nothing to execute. Steps in flight are given up first. Whatever
 * fails on the way is the end of it: what follows frees everything.
 *
 * Nothing is told while the GPU decides a step: nothing may change then, and nobody waits for it here.
 * @throws ERR_BLOCKSTEP_REENTRANT from inside a callback of the scheduler, with nothing changed
 */
export function sayFarewell(e: EngineState): void {
  const { scheduler, workers } = e;
  if (scheduler.config.connector === null || e.poison !== null || scheduler.isDeciding) return;
  try {
    scheduler.abortAll();
    for (const step of e.flight) {
      const { plan, state } = step;
      scheduler.failStep(plan);
      // What was begun with it is given up too; what was not never begins.
      if (state === 'kept back') workers?.skip(step.finishedHandles);
      else workers?.end(plan);
    }
    scheduler.pause('all');
    if (workers === null) return;
    const isHost = scheduler.config.placement.authority === 'host';
    const plan = isHost ? scheduler.schedule() : scheduler.beginSchedule().finish();
    workers.planned(plan);
    workers.begin(plan, true);
    workers.collect();
  } catch (error) {
    if (error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_REENTRANT') throw error;
  }
}
