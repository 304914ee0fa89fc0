import type { KvGroup } from '../options/kv-groups.js';
import { newBlocksOf } from '../plan/new-blocks.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

const NONE: readonly number[] = [];

/** A block in a request's rows, or one that steps in flight have let go of it. */
export interface Place {
  /** Negative: what stood in this block before somebody took it anew. */
  readonly id: number;
  /** The first token whose KV is in the block. */
  readonly firstToken: number;
  /** The first token behind it. */
  readonly endToken: number;
}

/**
 * The blocks with KV of a request's first `numTokens` tokens, in the order of their tokens; group after group. Besides those of its rows: what
 * steps in flight have let go, since an older step may have read it. Who has to do without such a block computes everything again.
 */
export function placesOf(s: SchedulerState, request: Request, numTokens = Number.POSITIVE_INFINITY): Place[] {
  const sizes = s.config.kvGroups?.list.map(({ blockSize }) => blockSize) ?? [s.config.blockSize];
  const inRows = sizes.flatMap((size, g) => {
    const row = s.core.blocks(request.slot, g);
    const places = Array.from(row, (id, at) => ({
      id,
      firstToken: at * size,
      endToken: (at + 1) * size,
    }));
    return places.filter(({ id, firstToken }) => id !== 0 && firstToken < numTokens);
  });
  const dropped = droppedInFlight(s, request);
  return dropped.length === 0
    ? inRows
    : [...dropped.map((id) => ({ id, firstToken: 0, endToken: 1 })), ...inRows];
}

/**
 * The blocks that steps in flight have let go of a request's rows, as left of a window. The id of a block that somebody has taken anew since is
 * negative: it holds another one's KV by now, and whoever has it has nothing to do with what this request read.
 */
export function droppedInFlight(s: SchedulerState, request: Request): readonly number[] {
  if (s.config.kvGroups === null) return NONE;
  const dropped: number[] = [];
  for (const { step, droppedSlots, droppedBlocks } of s.inFlight) {
    // Before its last admission the slot, or the row, was another one.
    if (step < request.admittedStep) continue;
    const own = droppedBlocks.filter((_, i) => droppedSlots[i] === request.slot);
    if (own.length === 0) continue;
    const taken = takenFrom(s, step);
    for (const id of own) dropped.push(taken.has(id) ? -id : id);
  }
  return dropped;
}

/** Blocks that this plan, and those in flight behind it, took from the pool. They hold what their new owners compute or load. */
export function takenFrom(s: SchedulerState, step: number): Set<number> {
  const taken = new Set<number>();
  for (const each of s.inFlight) {
    if (each.step < step) continue;
    for (let i = 0; i < each.numRequests; i++) {
      if (!holdsSince(each.requests[i], each.step)) continue;
      for (let g = 0; g < each.groups.length; g++)
        for (const id of newBlocksOf(s.core, each, i, g)) if (id !== 0) taken.add(id);
    }
    for (const blocks of each.loadedBlocks) for (const id of blocks) taken.add(id);
  }
  return taken;
}

/** Whether the request still has the row that it had in that step: it holds blocks and was not admitted again since. */
export function holdsSince(request: Request, step: number): boolean {
  return holdsBlocks(request) && request.admittedStep <= step;
}

/**
 * Whether a request holds blocks. A running request does. A waiting one may: a session, or a request whose prefix is
 * being loaded or was loaded.
 */
export function holdsBlocks({ container, numComputedTokens, load }: Request): boolean {
  return container === 'running' || (container !== null && (numComputedTokens > 0 || load !== null));
}

/** Whether a request that ends hands over nothing from a missing block on, whoever has to compute that; in vLLM it hands over all. */
export function endsWhole({ config }: SchedulerState): boolean {
  return config.loadFailurePolicy === 'fail' && config.deviations.evictFailedLoads;
}

/** Whether a synchronous load of this very request was to fill the block. */
export function isOwnLoad({ syncLoads }: Plan, request: Request, block: number): boolean {
  return syncLoads.some((load) => load.request === request && load.blocks.includes(block));
}

/** The first token with KV in one of these blocks, as `placesOf` has it; -1 if none of them is the request's. */
export function firstTokenIn(s: SchedulerState, request: Request, ids: ReadonlySet<number>): number {
  const found = placesOf(s, request).filter(({ id }) => ids.has(id));
  return found.length === 0 ? -1 : Math.min(...found.map(({ firstToken }) => firstToken));
}

/**
 * Finds the blocks that the loads of a plan left out among those with KV of the first `numTokens` tokens of a request, and adds them to `marked`.
 * @param marked missing blocks that a request before this one has to compute
 * @returns `first`: id of the first missing block, or one of its own load that it has let go; `firstToken`: first token with KV in a missing
 * block; `firstOwn`: the same of a block that was not marked, -1 if all were. Null if no block is missing
 */
export function findMissing(
  s: SchedulerState,
  plan: Plan,
  request: Request,
  numTokens: number,
  marked: Set<number>,
): { firstOwn: number; first: number; firstToken: number } | null {
  const { missing, step } = plan;
  // Its own load left it out, whoever has taken the block anew since, and whether they hold it still.
  const isOwn = (id: number): boolean =>
    (missing.has(id) || missing.has(-id)) &&
    holdsSince(request, step) &&
    isOwnLoad(plan, request, Math.abs(id));
  const found = placesOf(s, request, numTokens).filter(({ id }) => missing.has(id) || isOwn(id));
  // What was let go and taken anew says nothing else alone: that place may have been another load's.
  const first = droppedInFlight(s, request).find(isOwn) ?? found.find(({ id }) => id > 0)?.id;
  if (first === undefined) return null;
  const own = found.filter(({ id }) => !marked.has(id));
  for (const { id } of found) marked.add(id);
  const firstOf = (places: typeof found): number => Math.min(...places.map((place) => place.firstToken));
  return {
    first: Math.abs(first),
    firstToken: firstOf(found),
    firstOwn: own.length === 0 ? -1 : firstOf(own),
  };
}

/**
 * Tokens of a request that stay computed where a block is lost. With several KV cache groups none does: what is left of the blocks in front was
 * let go in some group (vLLM since #50388). In a group with a window the tokens behind need those in front of the block too.
 * @param firstToken the first token with KV in the lost block
 */
export function tokensKept(s: SchedulerState, { slot }: Request, firstToken: number): number {
  const { kvGroups, deviations } = s.config;
  if (kvGroups === null) return firstToken;
  if (kvGroups.list.length > 1) return 0;
  const [group] = kvGroups.list;
  if (!deviations.recomputeWindows) return firstToken;
  const from = Math.max(firstNeeded(group, firstToken), 0);
  const row = s.core.blocks(slot).subarray(Math.floor(from / group.blockSize), firstToken / group.blockSize);
  return row.includes(0) ? 0 : firstToken;
}

/** The first token whose KV, or state, the token behind `numTokens` others needs. */
function firstNeeded({ type, blockSize, window, chunk }: KvGroup, numTokens: number): number {
  if (type === 'mamba') return numTokens - blockSize;
  if (type === 'sliding') return numTokens - window + 1;
  return chunk > 0 ? numTokens - (numTokens % chunk) : 0;
}
