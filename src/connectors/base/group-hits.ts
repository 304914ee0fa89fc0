import type { BlockLists, KvView } from '../../scheduler/connector/kv-view.js';
import type { KvViewGroup } from '../../scheduler/connector/view-group.js';
import type { Request } from '../../scheduler/request/request.js';
import type { BlockKeys } from './block-keys.js';

/** Whether content can be loaded; null = ask again later. */
export type HasKey = (key: bigint) => boolean | null;

/** What is to be loaded for a request. Entry i of both is about the same block. */
export interface GroupLoad {
  readonly keys: readonly bigint[];
  /** Ids of the blocks to fill. */
  readonly blocks: Int32Array;
}

/** Whether every token of a group's layers needs all tokens before it. */
export function needsAll({ type }: KvViewGroup): boolean {
  return type === 'full' || type === 'mla' || type === 'sink';
}

/**
 * Matches and loads of blocks by their keys, for a model with KV cache groups. A match ends where every group has whole blocks and all that
 * the request needs there. So a group with a window needs its last blocks alone, and a group of states one block.
 *
 * Invariant: `#offered` has the requests that were offered something and were not admitted since.
 */
export class GroupHits {
  readonly #view: KvView;
  readonly #keys: BlockKeys;
  /** By handle: tokens of the local prefix when the request was asked about last. */
  readonly #offered = new Map<number, number>();

  constructor(view: KvView, keys: BlockKeys) {
    this.#view = view;
    this.#keys = keys;
  }

  /** Requests that were offered something. */
  get size(): number {
    return this.#offered.size;
  }

  /**
   * The tokens behind the local prefix that can be loaded, and notes them as offered.
   * @returns null: something that the request wants must be asked for again
   */
  match(request: Request, local: number, has: HasKey): number | null {
    this.#offered.delete(request.handle);
    const end = this.#longest(request, local, has);
    if (end === null || end <= local) return end === null ? null : 0;
    this.#offered.set(request.handle, local);
    return end - local;
  }

  /** The blocks that an offered match fills. @param rows borrowed */
  toLoad(request: Request, rows: BlockLists, numExternal: number): GroupLoad {
    const local = this.#offered.get(request.handle) ?? 0;
    this.#offered.delete(request.handle);
    const keys: bigint[] = [];
    const blocks: number[] = [];
    for (const [g, { blockSize }] of this.#view.groups.entries()) {
      const { first, end } = this.#view.neededPlaces(g, local + numExternal);
      for (let place = Math.max(first, local / blockSize); place < end; place++) {
        keys.push(this.#keys.of(request, place, g));
        blocks.push(rows[g][place]);
      }
    }
    return { keys, blocks: Int32Array.from(blocks) };
  }

  /**
   * Everything that a match behind `local` tokens may need, segment by segment.
   * @param most no match may be longer
   */
  *wanted(request: Request, local: number, most: number): Generator<{ key: bigint; isNeeded: boolean }> {
    const { alignment, groups } = this.#view;
    for (let end = local + alignment; end <= most; end += alignment) {
      for (const [g, group] of groups.entries()) {
        const { blockSize } = group;
        for (let place = (end - alignment) / blockSize; place < end / blockSize; place++) {
          if (isUseful(this.#view, g, place))
            yield { key: this.#keys.of(request, place, g), isNeeded: needsAll(group) };
        }
      }
    }
  }

  /** A request has ended. */
  forget(handle: number): void {
    this.#offered.delete(handle);
  }

  /** The tokens up to which a request can resume, at least `local`. */
  #longest(request: Request, local: number, has: HasKey): number | null {
    const { alignment, groups } = this.#view;
    if (local % alignment !== 0) return local;
    // The last token is always computed, to sample from.
    let end = down(request.numTokens - 1, alignment);
    for (const [g, group] of groups.entries()) {
      if (!needsAll(group)) continue;
      for (let place = local / group.blockSize; place < end / group.blockSize; place++) {
        const answer = has(this.#keys.of(request, place, g));
        if (answer === null) return null;
        if (!answer) end = down(place * group.blockSize, alignment);
      }
    }
    while (end > local) {
      const lacking = this.#lacking(request, local, end, has);
      if (lacking === null) return null;
      if (lacking < 0) return end;
      // Every end behind the missing block that is not longer needs that block too.
      end = down(lacking, alignment);
    }
    return local;
  }

  /** The first token of a block that is missing for a match up to `end`; -1 = none is. */
  #lacking(request: Request, local: number, end: number, has: HasKey): number | null {
    for (const [g, group] of this.#view.groups.entries()) {
      if (needsAll(group)) continue;
      const needed = this.#view.neededPlaces(g, end);
      const first = Math.max(needed.first, local / group.blockSize);
      for (let place = needed.end - 1; place >= first; place--) {
        const answer = has(this.#keys.of(request, place, g));
        if (answer === null) return null;
        if (!answer) return place * group.blockSize;
      }
    }
    return -1;
  }
}

/** What one group of full attention loads: it stands at the end of the request's blocks, behind what was found locally. The lists are borrowed. */
export function lastBlocks(view: KvView, request: Request, [row]: BlockLists, numTokens: number): GroupLoad {
  const first = row.length - numTokens / view.blockSize;
  const blocks = row.slice(first);
  return { keys: Array.from(blocks, (_, i) => view.blockHash(request, first + i)), blocks };
}

/** Whether some match needs a place: matches end where every group has whole blocks. */
export function isUseful(view: KvView, group: number, place: number): boolean {
  const end = (place + 1) * view.groups[group].blockSize;
  return view.neededPlaces(group, Math.ceil(end / view.alignment) * view.alignment).first <= place;
}

function down(tokens: number, alignment: number): number {
  return tokens - (tokens % alignment);
}
