// The tokens of a request that are lost with a block, and the tokens that stay computed.
import type { KvGroup } from '../options/kv-groups.js';
import { newBlocksOf, newPlacesOf } from '../plan/new-blocks.js';
import type { Plan } from '../plan/plan.js';
import type { SyncLoad } from '../plan/sync-load.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

const NONE: readonly Place[] = [];

/** A block in a request's rows, or one that steps in flight have let go of it. */
export interface Place {
  /** Names the KV in the block, see `kvIn`. */
  readonly id: number;
  /** The first token whose KV is in the block. */
  readonly firstToken: number;
  /** The first token behind it. */
  readonly endToken: number;
}

/**
 * Names the KV that a block had in that generation: by the block's id as long as that is the present one. Else by a negative number, of this
 * block and generation alone: the block has been taken anew, and holds another one's KV.
 */
export function kvIn(s: SchedulerState, block: number, generation: number): number {
  if (s.core.native.blockGeneration(block) === generation) return block;
  return -(generation * s.config.numBlocks + block);
}

/**
 * The blocks with KV of a request's first `numTokens` tokens: those that steps in flight have let go, since an older step may have read them, and
 * those of its rows, group after group, in the order of their tokens.
 */
export function placesOf(s: SchedulerState, request: Request, numTokens = Number.POSITIVE_INFINITY): Place[] {
  const sizes = s.config.kvGroups?.list.map(({ blockSize }) => blockSize) ?? [s.config.blockSize];
  const inRows = sizes.flatMap((size, g) => {
    const row = s.core.blocks(request.slot, g);
    const places = Array.from(row, (id, at) => placeOf(id, at, size));
    return places.filter(({ id, firstToken }) => id !== 0 && firstToken < numTokens);
  });
  const dropped = droppedInFlight(s, request);
  return dropped.length === 0 ? inRows : [...dropped, ...inRows];
}

function placeOf(id: number, at: number, size: number): Place {
  return { id, firstToken: at * size, endToken: (at + 1) * size };
}

/** The blocks that steps in flight have let go of a request's rows, as left of a window. Somebody may have taken them anew since. */
export function droppedInFlight(s: SchedulerState, request: Request): readonly Place[] {
  const { kvGroups } = s.config;
  if (kvGroups === null) return NONE;
  // Before its last admission the slot, or the row, was another one.
  const own = s.letGoSince(request.admittedStep).filter(({ slot }) => slot === request.slot);
  return own.map(({ block, generation, group, place }) =>
    placeOf(kvIn(s, block, generation), place, kvGroups.list[group].blockSize),
  );
}

/**
 * The KV in the blocks that this plan, and those in flight behind it, took from the pool: what their new owners compute or load, also where
 * they have let it go since. Owners that have left are not looked at.
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

/** Whether a synchronous load of this very request was to bring this KV. */
export function isOwnLoad(s: SchedulerState, { syncLoads }: Plan, request: Request, kv: number): boolean {
  const brings = ({ blocks, generations }: SyncLoad): boolean =>
    blocks.some((id, at) => kvIn(s, id, generations[at]) === kv);
  return syncLoads.some((load) => load.request === request && brings(load));
}

/** The first token with KV in one of these blocks, as `placesOf` has it; -1 if none of them is the request's. */
export function firstTokenIn(s: SchedulerState, request: Request, ids: ReadonlySet<number>): number {
  const found = placesOf(s, request).filter(({ id }) => ids.has(id));
  return found.length === 0 ? -1 : Math.min(...found.map(({ firstToken }) => firstToken));
}

/**
 * Finds the KV that the loads of a plan left out among that of the first `numTokens` tokens of a request, and adds it to `marked`.
 * @param marked missing KV that a request before this one has to compute
 * @returns `isOwn`: its own load was to bring the first of it; `firstToken`: first token with missing KV; `firstOwn`: the same of KV that was
 * not marked, -1 if all was. Null if nothing is missing
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
 * Tokens of a request that stay computed where a block is lost. With several KV cache groups none does: what is left of the blocks in front was
 * let go in some group (vLLM since #50388). None does either where the row has let the block go. In a group with a window the tokens behind
 * need those in front of the block too.
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

/** The first token whose KV, or state, the token behind `numTokens` others needs. */
function firstNeeded({ type, blockSize, window, chunk }: KvGroup, numTokens: number): number {
  if (type === 'mamba') return numTokens - blockSize;
  if (type === 'sliding') return numTokens - window + 1;
  return chunk > 0 ? numTokens - (numTokens % chunk) : 0;
}
