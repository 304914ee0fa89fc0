import { PendingOp } from '../../core/core.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Takes the hashes from the blocks of a row, from index `firstBlock` on, so that the prefix cache does not find them
 * any more.
 */
export function forgetRow(s: SchedulerState, slot: number, firstBlock: number): void {
  if (s.config.reportBlocks) noteForgotten(s, s.core.blocks(slot).subarray(firstBlock));
  s.core.push(PendingOp.evict, slot, firstBlock);
}

/** Takes the hashes from these blocks, so that the prefix cache does not find them any more. */
export function forgetBlocks(s: SchedulerState, ids: Int32Array): void {
  if (s.config.reportBlocks) noteForgotten(s, ids);
  s.core.native.evict(ids);
}

/**
 * Notes that the prefix cache no longer finds the present content of these blocks, whether it could before or not;
 * the next plan says so (`Plan.forgottenBlocks`).
 */
export function noteForgotten(s: SchedulerState, ids: Int32Array): void {
  for (const id of ids) s.forgotten.add(id);
}
