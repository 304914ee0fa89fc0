// Places of rows by KV cache group: the places to load, and the position up to which a request can
// continue.
import type { BlockLists, KvView } from '../../../../src/scheduler/connector/kv-view.js';

/** A place of a row. */
export interface Place {
  readonly group: number;
  readonly index: number;
}

/** Whether a place of these rows holds a block. */
export function isKept(rows: BlockLists, { group, index }: Place): boolean {
  return (rows[group][index] ?? 0) !== 0;
}

/**
 * The places to load for a request that goes on behind `end` tokens, and has the first `local`
 * ones.
 */
export function toLoad(view: KvView, local: number, end: number): Place[] {
  return view.groups.flatMap(({ blockSize }, group) => {
    const needed = view.neededPlaces(group, end);
    const first = Math.max(needed.first, local / blockSize);
    return Array.from({ length: Math.max(0, needed.end - first) }, (_, i) => ({ group, index: first + i }));
  });
}

/**
 * The most tokens, as every group has whole blocks of them, behind which a request can go on. The
 * request has its local blocks, and the blocks that `has` finds.
 * @param most no more than these
 */
export function longestMatch(
  view: KvView,
  local: number,
  most: number,
  has: (place: Place) => boolean,
): number {
  const { alignment } = view;
  if (local % alignment !== 0) return local;
  let end = Math.max(local, most - (most % alignment));
  // Place after place, so that nothing behind the first missing one is asked for in a group that needs all.
  for (const [group, { type, blockSize }] of view.groups.entries()) {
    if (type === 'sliding' || type === 'chunked' || type === 'mamba') continue;
    let index = local / blockSize;
    while (index < end / blockSize && has({ group, index })) index++;
    end = Math.min(end, index * blockSize);
    end -= end % alignment;
  }
  for (; end > local; end -= alignment) if (toLoad(view, local, end).every(has)) return end;
  return local;
}
