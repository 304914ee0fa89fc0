// The rows of a slot in all KV cache groups.
import type { Core } from './core.js';

const ONE = new Int32Array(1);

/**
 * A copy of the rows of a slot, one for each KV cache group. Empty places are 0. @throws
 * ERR_BLOCKSTEP_BAD_SLOT
 */
export function rowsOf(core: Core, slot: number): Int32Array[] {
  return Array.from({ length: core.numGroups }, (_, group) => core.blocks(slot, group));
}

/** The ids of the blocks that a slot holds, group after group. @throws ERR_BLOCKSTEP_BAD_SLOT */
export function heldBlocks(core: Core, slot: number): Int32Array {
  if (core.config.groups === undefined) return core.blocks(slot);
  return Int32Array.from(rowsOf(core, slot).flatMap((row) => [...row].filter((id) => id !== 0)));
}

/** Whether a slot has rows. @throws ERR_BLOCKSTEP_BAD_SLOT */
export function hasRows(core: Core, slot: number): boolean {
  core.flush();
  return core.native.readBlocks(slot, 0, ONE, 0) > 0;
}
