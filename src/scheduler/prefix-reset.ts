import { preemptByForce } from './preempt.js';
import { reclaimAllSessions } from './reclaim.js';
import type { SchedulerState } from './scheduler-state.js';

/** What a reset of the prefix cache did. */
export interface ResetResult {
  /** Every hash is gone. False: blocks are still in use, and nothing was forgotten. */
  ok: boolean;
  /** External ids of the requests that hold blocks, when not ok. */
  blockers: string[];
  /** External ids of the running requests that were preempted, in order. */
  preempted: string[];
  /** External ids of the sessions that did not run and whose blocks were taken back. */
  reclaimed: string[];
}

/**
 * Forgets all cached prefixes, for instance because the model's weights changed (vLLM `reset_prefix_cache`). With
 * `resetRunning` the running requests are preempted first, last admitted first, and their outputs in flight dropped.
 * So are the blocks of sessions that do not run, unless `reclaimIdleSessions` is off. A request that still holds blocks is a blocker, never an exception.
 */
export function resetPrefixCache(s: SchedulerState, resetRunning: boolean): ResetResult {
  const preempted: string[] = [];
  while (resetRunning && s.queues.running.length > 0) {
    const request = s.queues.running[s.queues.running.length - 1];
    preemptByForce(s, request);
    preempted.push(request.id);
  }
  const reclaimed = resetRunning ? reclaimAllSessions(s) : [];
  const ok = s.core.native.reset();
  return { ok, blockers: ok ? [] : holders(s), preempted, reclaimed };
}

function holders(s: SchedulerState): string[] {
  const all = [...s.requests.values(), ...s.draining];
  return all.filter((request) => s.core.blocks(request.slot).length > 0).map((request) => request.id);
}
