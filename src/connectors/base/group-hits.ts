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

/** A block that a request needs: its place, and what it is of. */
interface Needed {
  readonly group: number;
  readonly place: number;
  readonly key: bigint;
}

/** How far the groups that need all tokens were found, for a request that is asked about in every step. */
interface Found {
  readonly handle: number;
  readonly numTokens: number;
  readonly local: number;
  readonly version: number;
  /** Every such group has everything between the local prefix and this token. */
  readonly end: number;
}

const NOTHING_FOUND: Found = { handle: -1, numTokens: 0, local: 0, version: 0, end: 0 };

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
  #found = NOTHING_FOUND;

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
   * @param version another number when something that `has` had is gone, or is being loaded. While it stays, what was found is not looked up again
   * @returns null: something that the request wants must be asked for again
   */
  match(request: Request, local: number, has: HasKey, version: number): number | null {
    this.#offered.delete(request.handle);
    const end = this.longest(request, local, has, request.numTokens - 1, version);
    if (end === null || end <= local) return end === null ? null : 0;
    this.#offered.set(request.handle, local);
    return end - local;
  }

  /** The blocks that an offered match fills. @param rows borrowed */
  toLoad(request: Request, rows: BlockLists, numExternal: number): GroupLoad {
    const local = this.#offered.get(request.handle) ?? 0;
    this.#offered.delete(request.handle);
    const needed = this.needed(request, local, local + numExternal);
    return {
      keys: needed.map(({ key }) => key),
      blocks: Int32Array.from(needed, ({ group, place }) => rows[group][place]),
    };
  }

  /** What a request that resumes behind `end` tokens needs besides its local prefix, group after group. */
  needed(request: Request, local: number, end: number): Needed[] {
    const needed: Needed[] = [];
    for (const [group, { blockSize }] of this.#view.groups.entries()) {
      const range = this.#view.neededPlaces(group, end);
      for (let place = Math.max(range.first, local / blockSize); place < range.end; place++)
        needed.push({ group, place, key: this.#keys.of(request, place, group) });
    }
    return needed;
  }

  /**
   * What a match longer than `beyond` tokens may need behind `local` tokens, segment by segment.
   * @param most no match may be longer
   */
  *wanted(
    request: Request,
    local: number,
    most: number,
    beyond = local,
  ): Generator<{ key: bigint; isNeeded: boolean }> {
    const { alignment, groups } = this.#view;
    if (local % alignment !== 0) return;
    const firsts = groups.map((_, g) => this.#view.neededPlaces(g, beyond + alignment).first);
    for (let end = local + alignment; end <= most; end += alignment) {
      for (const [g, group] of groups.entries()) {
        const { blockSize } = group;
        const from = Math.max((end - alignment) / blockSize, firsts[g]);
        for (let place = from; place < end / blockSize; place++) {
          if (isUseful(this.#view, g, place))
            yield { key: this.#keys.of(request, place, g), isNeeded: needsAll(group) };
        }
      }
    }
  }

  /** A request has ended, or is not offered anything after all. */
  forget(handle: number): void {
    this.#offered.delete(handle);
  }

  /**
   * The tokens up to which a request can resume, at least `local`; null as `match` has it.
   * @param most tokens that it may resume behind: the last token is always computed, to sample from
   * @param version as `match` has it; absent = everything is looked up
   */
  longest(request: Request, local: number, has: HasKey, most: number, version?: number): number | null {
    const { alignment } = this.#view;
    if (local % alignment !== 0) return local;
    let end = this.#ofAll(request, local, has, down(most, alignment), version);
    while (end !== null && end > local) {
      const lacking = this.#lacking(request, local, end, has);
      if (lacking === null) return null;
      if (lacking < 0) return end;
      // Every end behind the missing block that is not longer needs that block too.
      end = down(lacking, alignment);
    }
    return end === null ? null : local;
  }

  /** The tokens up to which the groups that need all tokens have everything. */
  #ofAll(
    request: Request,
    local: number,
    has: HasKey,
    most: number,
    version: number | undefined,
  ): number | null {
    const { alignment, groups } = this.#view;
    const { handle, numTokens } = request;
    const last = this.#found;
    const isSame = handle === last.handle && numTokens === last.numTokens && local === last.local;
    const known = isSame && version === last.version ? last.end : local;
    let end = most;
    for (const [g, group] of groups.entries()) {
      if (!needsAll(group)) continue;
      for (let place = known / group.blockSize; place < end / group.blockSize; place++) {
        const answer = has(this.#keys.of(request, place, g));
        if (answer === null) return null;
        if (!answer) end = down(place * group.blockSize, alignment);
      }
    }
    end = Math.max(end, local);
    if (version !== undefined) this.#found = { handle, numTokens, local, version, end };
    return end;
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
