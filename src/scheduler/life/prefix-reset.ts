import { askReset } from '../connector/ask-connector.js';
import { noteForgotten } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { preemptByForce } from './preempt.js';
import { reclaimAllSessions } from './reclaim.js';

const NO_BLOCKS = new Int32Array(0);

/** What a reset of the prefix cache did. */
export interface ResetResult {
  /** Every tier that was asked for has forgotten everything: the local cache, and with `resetConnector` the connector's. */
  ok: boolean;
  /** Every hash is gone. False: blocks are still in use, by requests or by transfers, and nothing was forgotten. */
  local: boolean;
  /**
   * What the connector's tier did; false: transfers are pending and it kept its content, or it failed. Null: it was not
   * asked, because that was not asked for or the local cache was not reset, or it has nothing to reset.
   */
  connector: boolean | null;
  /** External ids of the requests that hold blocks, when `local` is false. */
  blockers: string[];
  /** Blocks that the connector has pinned, when `local` is false: they are in use too. */
  pinnedBlocks: number;
  /** External ids of the running requests that were preempted, in order. */
  preempted: string[];
  /** External ids of the sessions that did not run and whose blocks were taken back. */
  reclaimed: string[];
}

/** What to reset besides what lies in the pool unused. */
export interface ResetOptions {
  /** Running requests too: they are computed again. Default false. */
  resetRunning?: boolean;
  /** The connector's tier too. Default false. */
  resetConnector?: boolean;
}

/**
 * Forgets all cached prefixes, for instance because the model's weights changed (vLLM `reset_prefix_cache`). With
 * `resetRunning` the running requests are preempted first, last admitted first, and their outputs in flight dropped.
 * So are the blocks of sessions that do not run, unless `reclaimIdleSessions` is off. A request that still holds blocks is a blocker, never an exception.
 */
export function resetPrefixCache(
  s: SchedulerState,
  { resetRunning, resetConnector }: Required<ResetOptions>,
): ResetResult {
  const preempted: string[] = [];
  while (resetRunning && s.queues.running.length > 0) {
    const request = s.queues.running[s.queues.running.length - 1];
    preemptByForce(s, request);
    preempted.push(request.id);
  }
  const reclaimed = resetRunning ? reclaimAllSessions(s) : [];
  const published = s.config.reportBlocks ? s.core.published() : NO_BLOCKS;
  const local = s.core.native.reset();
  if (local) noteForgotten(s, published);
  const connector = local && resetConnector ? askReset(s) : null;
  const ok = local && connector !== false;
  const inUse = local
    ? { blockers: [], pinnedBlocks: 0 }
    : { blockers: holders(s), pinnedBlocks: s.pins.size };
  return { ok, local, connector, ...inUse, preempted, reclaimed };
}

function holders(s: SchedulerState): string[] {
  const all = [...s.requests.values(), ...s.draining, ...s.quarantined];
  return all
    .filter(({ slot, keptBlocks }) => keptBlocks !== null || s.core.blocks(slot).length > 0)
    .map((request) => request.id);
}
