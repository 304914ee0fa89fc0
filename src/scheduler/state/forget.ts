// Removes hashes from blocks, so that no lookup finds them.
import { PendingOp } from '../../core/core.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Removes the hashes from the blocks of a request's rows with KV of the tokens from `firstToken`
 * on. The prefix cache no longer finds these blocks.
 */
export function forgetRow(s: SchedulerState, slot: number, firstToken: number): void {
  const { kvGroups, blockSize, reportBlocks } = s.config;
  if (reportBlocks) noteForgotten(s, blocksFrom(s, slot, firstToken));
  s.core.push(PendingOp.evict, slot, kvGroups === null ? Math.floor(firstToken / blockSize) : firstToken);
}

/** The blocks of a slot with KV of the tokens from `firstToken` on. */
export function blocksFrom(s: SchedulerState, slot: number, firstToken: number): Int32Array {
  const ids = s.groups.list.flatMap(({ blockSize }, g) => [
    ...s.core.blocks(slot, g).subarray(Math.floor(firstToken / blockSize)),
  ]);
  return Int32Array.from(ids.filter((id) => id !== 0));
}

/** Removes the hashes from these blocks, so that the prefix cache no longer finds them. */
export function forgetBlocks(s: SchedulerState, ids: Int32Array): void {
  if (s.config.reportBlocks) noteForgotten(s, ids);
  s.core.native.evict(ids);
}

/**
 * Notes that the prefix cache no longer finds the present content of these blocks, whether it did
 * before or not. The next plan lists them (`Plan.forgottenBlocks`).
 */
export function noteForgotten(s: SchedulerState, ids: Int32Array): void {
  for (const id of ids) s.forgotten.add(id);
}
