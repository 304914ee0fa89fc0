import { PendingOp } from '../../core/core.js';
import type { SchedulerState } from './scheduler-state.js';

/** Takes the hashes of a row's blocks from `firstBlock` on: nobody finds them any more. */
export function forgetRow(s: SchedulerState, slot: number, firstBlock: number): void {
  if (s.config.reportBlocks) noteForgotten(s, s.core.blocks(slot).subarray(firstBlock));
  s.core.push(PendingOp.evict, slot, firstBlock);
}

/** Takes the hashes of these blocks. */
export function forgetBlocks(s: SchedulerState, ids: Int32Array): void {
  if (s.config.reportBlocks) noteForgotten(s, ids);
  s.core.native.evict(ids);
}

/** The next plan says that nobody finds what these blocks hold now, whether anybody could before or not. */
export function noteForgotten(s: SchedulerState, ids: Int32Array): void {
  for (const id of ids) s.forgotten.add(id);
}
