// Removes hashes from blocks, so that no lookup finds them.
import { PendingOp } from '../../core/core.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Takes the hashes from the blocks of a request's rows that have KV of the tokens from `firstToken` on, so that the prefix cache does not
 * find them any more.
 */
export function forgetRow(s: SchedulerState, slot: number, firstToken: number): void {
  const { kvGroups, blockSize, reportBlocks } = s.config;
  if (reportBlocks) noteForgotten(s, blocksFrom(s, slot, firstToken));
  s.core.push(PendingOp.evict, slot, kvGroups === null ? Math.floor(firstToken / blockSize) : firstToken);
}

/** The blocks of a slot that have KV of the tokens from `firstToken` on. */
export function blocksFrom(s: SchedulerState, slot: number, firstToken: number): Int32Array {
  const { kvGroups, blockSize } = s.config;
  if (kvGroups === null) return s.core.blocks(slot).subarray(Math.floor(firstToken / blockSize));
  const ids = kvGroups.list.flatMap((group, g) => [
    ...s.core.blocks(slot, g).subarray(Math.floor(firstToken / group.blockSize)),
  ]);
  return Int32Array.from(ids.filter((id) => id !== 0));
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
