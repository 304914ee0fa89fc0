// Forgets all cached prefixes.
import { hasRows } from '../../core/rows.js';
import { preemptByReset, releaseFenced } from '../life/preempt.js';
import { reclaimAllSessions } from '../life/reclaim.js';
import { numSinkBlocks } from '../options/options.js';
import type { ResetOptions, ResetResult } from '../options/reset.js';
import { noteForgotten } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';

const NO_BLOCKS = new Int32Array(0);

/**
 * Forgets all cached prefixes, for instance because the model's weights changed (vLLM
 * `reset_prefix_cache`).
 *
 * With `resetRunning` every running request is preempted first, last admitted first, and its
 * outputs in flight are dropped. The blocks of sessions that do not run are taken too, unless the
 * deviation `reclaimIdleSessions` is off.
 *
 * A request that still holds blocks is listed as a blocker; it never causes an exception.
 */
export function resetPrefixCache(
  s: SchedulerState,
  { resetRunning, resetConnector }: Required<ResetOptions>,
): ResetResult {
  const preempted: string[] = [];
  while (resetRunning && s.queues.running.length > 0) {
    const request = s.queues.running[s.queues.running.length - 1];
    preemptByReset(s, request);
    preempted.push(request.id);
    if (s.config.preemptedIds === 'sinceLast') s.resetVictims.push(request);
  }
  const reclaimed = resetRunning ? reclaimAllSessions(s) : [];
  if (resetRunning) releaseFenced(s, true);
  const published = s.config.reportBlocks ? s.core.published() : NO_BLOCKS;
  const isKept = numSinkBlocks(s.groups) > 0 && !s.config.deviations.resetBesideSinks;
  const local = !isKept && s.core.native.reset();
  if (local) noteForgotten(s, published);
  const connector = local && resetConnector ? (s.connector?.askReset() ?? null) : null;
  s.kvEvents?.tell();
  const ok = local && connector !== false;
  const inUse = local
    ? { blockers: [], pinnedBlocks: 0 }
    : { blockers: holders(s), pinnedBlocks: s.pins.size };
  return { ok, local, connector, ...inUse, preempted, reclaimed };
}

/**
 * External ids of all requests that hold blocks, finished ones included, and of those that dropped
 * blocks that a step in flight may write.
 */
function holders(s: SchedulerState): string[] {
  const all = [...s.requests.values(), ...s.draining, ...s.quarantined];
  const holding = all.filter(({ slot, keptBlocks }) => keptBlocks !== null || hasRows(s.core, slot));
  return [...new Set([...holding, ...s.fencedFrees].map(({ id }) => id))];
}
