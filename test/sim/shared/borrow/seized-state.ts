// The scheduler's own queues, as borrowing adapters get hold of them.
import { SchedulerState } from '../../../../src/scheduler/state/scheduler-state.js';

/**
 * The scheduler's own state, as an adapter of vLLM has it that parks and restores requests. The
 * state is private, so it is caught while a request is added.
 */
export function seizeState(add: () => void): SchedulerState | null {
  const { track } = SchedulerState.prototype;
  const caught: SchedulerState[] = [];
  SchedulerState.prototype.track = function (this: SchedulerState, ...args) {
    caught.push(this);
    track.apply(this, args);
  };
  try {
    add();
  } finally {
    SchedulerState.prototype.track = track;
  }
  return caught[0] ?? null;
}
