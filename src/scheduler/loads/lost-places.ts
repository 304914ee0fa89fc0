// The tokens of a request that are lost with a block, and the tokens that stay computed.
import type { KvGroup } from '../options/kv-groups.js';
import { newBlocksOf, newPlacesOf } from '../plan/new-blocks.js';
import type { Plan } from '../plan/plan.js';
import type { SyncLoad } from '../plan/sync-load.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

const NONE: readonly Place[] = [];

/** A block in a request's rows, or a block that steps in flight have dropped from them. */
export interface Place {
  /** Names the KV in the block, see `kvIn`. */
  readonly id: number;
  /** The first token whose KV is in the block. */
  readonly firstToken: number;
  /** The first token after the block. */
  readonly endToken: number;
}

/**
 * Names the KV that a block had in that generation. This is the block's id while the generation is
 * current. Otherwise the block has been taken again and holds other KV, and the name is a negative
 * number, unique to this block and generation.
 */
export function kvIn(s: SchedulerState, block: number, generation: number): number {
  if (s.core.native.blockGeneration(block) === generation) return block;
  return -(generation * s.config.numBlocks + block);
}

/**
 * The blocks with KV of a request's first `numTokens` tokens. First come blocks that steps in
 * flight have dropped, because an older step may have read them. Then come the blocks of its rows,
 * group after group, in the order of their tokens.
 */
export function placesOf(s: SchedulerState, request: Request, numTokens = Number.POSITIVE_INFINITY): Place[] {
  const inRows = s.groups.list.flatMap(({ blockSize }, g) => {
    const row = s.core.blocks(request.slot, g);
    const places = Array.from(row, (id, at) => placeOf(id, at, blockSize));
    return places.filter(({ id, firstToken }) => id !== 0 && firstToken < numTokens);
  });
  const dropped = droppedInFlight(s, request);
  return dropped.length === 0 ? inRows : [...dropped, ...inRows];
}

function placeOf(id: number, at: number, size: number): Place {
  return { id, firstToken: at * size, endToken: (at + 1) * size };
}

/**
 * The blocks that steps in flight have dropped from a request's rows, such as those left of a
 * window. They may have been taken again since.
 */
export function droppedInFlight(s: SchedulerState, request: Request): readonly Place[] {
  const { kvGroups } = s.config;
  if (kvGroups === null) return NONE;
  // Before its last admission the request had another slot or row.
  const own = s.letGoSince(request.admittedStep).filter(({ slot }) => slot === request.slot);
  return own.map(({ block, generation, group, place }) =>
    placeOf(kvIn(s, block, generation), place, kvGroups.list[group].blockSize),
  );
}

/**
 * The KV in the blocks that this plan, and the plans in flight after it, took from the pool. It is
 * the KV that their new owners compute or load, even if they have dropped it since. Owners that
 * have left are not considered.
 */
export function takenFrom(s: SchedulerState, step: number): Set<number> {
  const taken = new Set<number>();
  for (const plan of s.inFlight) {
    if (plan.step < step) continue;
    const gone = s.letGoSince(plan.step + 1);
    for (let i = 0; i < plan.numRequests; i++) {
      if (!holdsSince(plan.requests[i], plan.step)) continue;
      for (let g = 0; g < plan.groups.length; g++) {
        for (const id of newBlocksOf(s.core, plan, i, g)) if (id !== 0) taken.add(id);
        const { from, until } = newPlacesOf(plan, i, g);
        for (const { slot, group, place, block, generation } of gone)
          if (slot === plan.slots[i] && group === g && place >= from && place < until)
            taken.add(kvIn(s, block, generation));
      }
    }
    for (const blocks of plan.loadedBlocks) for (const id of blocks) taken.add(id);
  }
  return taken;
}

/** Whether the request still has the row that it had in that step: it holds blocks and was not admitted again since. */
export function holdsSince(request: Request, step: number): boolean {
  return holdsBlocks(request) && request.admittedStep <= step;
}

/**
 * Whether a request holds blocks. A running request does. A waiting request may: a session, or a
 * request whose prefix is being loaded or was loaded.
 */
export function holdsBlocks({ container, numComputedTokens, load }: Request): boolean {
  return container === 'running' || (container !== null && (numComputedTokens > 0 || load !== null));
}

/**
 * Whether a request that ends hands over nothing from a missing block on, whichever request has to
 * compute it. In vLLM it hands over everything.
 */
export function endsWhole({ config }: SchedulerState): boolean {
  return config.loadFailurePolicy === 'fail' && config.deviations.evictFailedLoads;
}

/** Whether a synchronous load of this very request was to bring this KV. */
export function isOwnLoad(s: SchedulerState, { syncLoads }: Plan, request: Request, kv: number): boolean {
  const brings = ({ blocks, generations }: SyncLoad): boolean =>
    blocks.some((id, at) => kvIn(s, id, generations[at]) === kv);
  return syncLoads.some((load) => load.request === request && brings(load));
}

/**
 * The first token with KV in one of these blocks, as in `placesOf`; -1 if the request has none of
 * them.
 */
export function firstTokenIn(s: SchedulerState, request: Request, ids: ReadonlySet<number>): number {
  const found = placesOf(s, request).filter(({ id }) => ids.has(id));
  return found.length === 0 ? -1 : Math.min(...found.map(({ firstToken }) => firstToken));
}

/**
 * Finds the KV among a request's first `numTokens` tokens that the loads of a plan failed to bring,
 * and adds it to `marked`.
 * @param marked missing KV that an earlier request has to compute
 * @returns `isOwn`: its own load was to bring the first missing KV. `firstToken`: first token with
 * missing KV. `firstOwn`: the same for unmarked KV, -1 if all was marked. Null if nothing is
 * missing
 */
export function findMissing(
  s: SchedulerState,
  plan: Plan,
  request: Request,
  numTokens: number,
  marked: Set<number>,
): { isOwn: boolean; firstOwn: number; firstToken: number } | null {
  const found = placesOf(s, request, numTokens).filter(({ id }) => plan.missing.has(id));
  if (found.length === 0) return null;
  const own = found.filter(({ id }) => !marked.has(id));
  for (const { id } of found) marked.add(id);
  const firstOf = (places: typeof found): number => Math.min(...places.map((place) => place.firstToken));
  return {
    isOwn: isOwnLoad(s, plan, request, found[0].id),
    firstToken: firstOf(found),
    firstOwn: own.length === 0 ? -1 : firstOf(own),
  };
}

/**
 * The number of a request's tokens that stay computed when a block is lost. With several KV cache
 * groups none do, because some group has dropped blocks before it (vLLM since #50388). None do
 * either if the row has dropped the block. In a group with a window, later tokens also need the
 * tokens before the block.
 * @param firstToken the first token with KV in the lost block
 */
export function tokensKept(s: SchedulerState, { slot }: Request, firstToken: number): number {
  const { kvGroups, deviations } = s.config;
  if (kvGroups === null) return firstToken;
  if (kvGroups.list.length > 1) return 0;
  const [group] = kvGroups.list;
  const row = s.core.blocks(slot);
  const place = Math.floor(firstToken / group.blockSize);
  if (row[place] === 0) return 0;
  if (!deviations.recomputeWindows) return firstToken;
  const from = Math.max(firstNeeded(group, firstToken), 0);
  return row.subarray(Math.floor(from / group.blockSize), place).includes(0) ? 0 : firstToken;
}

/** The first token whose KV, or state, the token after `numTokens` others needs. */
function firstNeeded({ type, blockSize, window, chunk }: KvGroup, numTokens: number): number {
  if (type === 'mamba') return numTokens - blockSize;
  if (type === 'sliding') return numTokens - window + 1;
  return chunk > 0 ? numTokens - (numTokens % chunk) : 0;
}
