// The state of every block, and its holders.
import { heldBlocks } from '../../core/rows.js';
import { numSinkBlocks } from '../options/options.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { BlockState } from './block-state.js';

/**
 * Writes the `BlockState` of every block, by its id. A shared block has the gravest of its states:
 * a quarantined block stays quarantined, even if something else uses it. The cost grows with the
 * blocks of the pool, and not with the requests, except for those whose blocks transfers use.
 * @param states one byte for each block of the pool
 */
export function readBlockStates(s: SchedulerState, states: Uint8Array): void {
  states.fill(BlockState.used);
  // The null block, and those that sinks hold for good.
  states.fill(BlockState.reserved, 0, 1 + numSinkBlocks(s.groups));
  const free = s.core.freeQueue();
  for (let i = 0; i < free.length; i++) states[free[i]] = BlockState.free;
  const published = s.core.published();
  for (let i = 0; i < published.length; i++) {
    if (states[published[i]] === BlockState.free) states[published[i]] = BlockState.cached;
  }
  for (const block of s.pins.blocks()) raise(states, block, BlockState.transfer);
  for (const request of s.usedRequests) {
    const state = s.quarantined.has(request) ? BlockState.quarantined : BlockState.transfer;
    for (const block of blocksOf(s, request)) raise(states, block, state);
  }
}

/** Raises a block to a state, if that is graver than its present state. */
function raise(states: Uint8Array, block: number, state: number): void {
  if (states[block] < state) states[block] = state;
}

/**
 * The blocks that a request holds, including those that were kept for a transfer when it lost its
 * row; in a new array.
 */
export function blocksOf(s: SchedulerState, { slot, keptBlocks }: Request): Int32Array {
  const held = heldBlocks(s.core, slot);
  if (keptBlocks === null) return held;
  return Int32Array.from(new Set([...held, ...keptBlocks]));
}

/**
 * The requests that hold a block, finished ones included. Examines every request that may hold
 * blocks.
 * @param block the id of a block; nobody holds an unknown block
 */
export function holdersOf(s: SchedulerState, block: number): Request[] {
  if (block === 0) return [];
  s.core.flush();
  const scratch = new Int32Array(s.core.config.maxBlocksPerRow);
  const holds = ({ slot, keptBlocks }: Request): boolean => {
    for (let g = 0; g < s.core.numGroups; g++) {
      const row = scratch.subarray(0, s.core.native.readBlocks(slot, 0, scratch, g));
      if (row.includes(block)) return true;
    }
    return keptBlocks?.includes(block) === true;
  };
  const found: Request[] = [];
  for (const requests of [s.requests.values(), s.draining, s.quarantined])
    for (const request of requests) if (mayHold(request) && holds(request)) found.push(request);
  return found;
}

/** Most requests of a long queue hold nothing, which can be decided without a native call. */
function mayHold(request: Request): boolean {
  const { container, numComputedTokens, load, keptBlocks } = request;
  return container !== 'waiting' || numComputedTokens > 0 || load !== null || keptBlocks !== null;
}
