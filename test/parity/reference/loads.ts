// vLLM's rules for invalid blocks.
import type { Faults } from './kv/faults.js';
import type { ReferenceGroup } from './kv/group.js';
import { NULL_BLOCK } from './kv/pool.js';
import type { ReferenceRequest } from './request.js';

/** The effect of invalid blocks on the requests that have them. */
export interface Damage {
  readonly affected: ReferenceRequest[];
  /** Of each affected request the first block that it must compute again, and all behind it. */
  readonly blocks: Set<number>;
  /** The requests among them that must compute all again, so that their rows are of no use. */
  readonly restarted: ReferenceRequest[];
}

/**
 * vLLM's _update_requests_with_invalid_blocks: cuts what counts as computed back to the first
 * invalid block. If several requests have the same block, only the first computes it again. The
 * others rely on that, and only lose the step that has just run. With several groups vLLM dies;
 * here the requests compute all again.
 * @param scheduled tokens that the step has computed for a request; only what was there before can have been loaded
 */
export function invalidate(
  requests: readonly ReferenceRequest[],
  invalid: ReadonlySet<number>,
  scheduled: (request: ReferenceRequest) => number,
  groups: readonly ReferenceGroup[],
  faults: Faults,
): Damage {
  const damage: Damage = { affected: [], blocks: new Set(), restarted: [] };
  const marked = new Set<number>();
  for (const request of requests) {
    const computed = request.numComputedTokens - scheduled(request);
    const loaded = groups.map(({ index, blockSize }) =>
      request.rows[index].blocks.slice(0, Math.max(0, Math.ceil(computed / blockSize))),
    );
    if (!loaded.some((blocks) => blocks.some((block) => invalid.has(block)))) continue;
    damage.affected.push(request);
    if (groups.length > 1) restart(request, firstInvalid(loaded, invalid, groups), groups, damage);
    else {
      const [blocks] = loaded;
      const first = blocks.findIndex((block) => invalid.has(block) && !marked.has(block));
      for (const block of blocks) if (invalid.has(block)) marked.add(block);
      cut(request, computed, first, groups[0], faults, damage);
    }
  }
  return damage;
}

/** Cuts a request of one group back to a place; below 0: it has lost no place of its own. */
function cut(
  request: ReferenceRequest,
  computed: number,
  first: number,
  group: ReferenceGroup,
  faults: Faults,
  damage: Damage,
): void {
  const from = first * group.blockSize;
  const [{ blocks }] = request.rows;
  request.numComputedTokens = first < 0 ? computed : from;
  if (first < 0) return;
  const reach = blocks.slice(group.skipBlocks(from), first);
  if (!faults.G9 && reach.includes(NULL_BLOCK)) restart(request, from, [group], damage);
  else for (const block of blocks.slice(first)) damage.blocks.add(block);
}

/** The first token whose KV is invalid in some group. */
function firstInvalid(
  loaded: readonly (readonly number[])[],
  invalid: ReadonlySet<number>,
  groups: readonly ReferenceGroup[],
): number {
  const firsts = loaded.map((blocks, i) => {
    const place = blocks.findIndex((block) => invalid.has(block));
    return place < 0 ? Infinity : place * groups[i].blockSize;
  });
  return Math.min(...firsts);
}

/** Makes a request compute all again, since its KV is invalid from a token on. */
function restart(
  request: ReferenceRequest,
  from: number,
  groups: readonly ReferenceGroup[],
  damage: Damage,
): void {
  request.numComputedTokens = 0;
  damage.restarted.push(request);
  for (const { index, blockSize } of groups) {
    for (const block of request.rows[index].blocks.slice(Math.floor(from / blockSize)))
      damage.blocks.add(block);
  }
}
