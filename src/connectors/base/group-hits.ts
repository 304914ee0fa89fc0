import type { BlockLists, KvView } from '../../scheduler/connector/kv-view.js';
import type { KvViewGroup } from '../../scheduler/connector/view-group.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import type { BlockKeys } from './block-keys.js';

/** Says whether content can be loaded. Null: ask again later. */
export type HasKey = (key: bigint) => boolean | null;

/** The blocks to load for a request. Entry i of both lists describes the same block. */
export interface GroupLoad {
  readonly keys: readonly bigint[];
  /** Ids of the blocks to fill. */
  readonly blocks: Int32Array;
}

/** Whether every token of a group's layers needs all tokens before it. */
export function needsAll({ type }: KvViewGroup): boolean {
  return type === 'full' || type === 'mla' || type === 'sink';
}

/** A block that a request needs: its group and its place. */
interface Needed {
  readonly group: number;
  readonly place: number;
  readonly key: bigint;
}

/**
 * How many tokens are available in every group that needs all tokens. It is kept for a request that
 * is asked about in every step.
 */
interface Found {
  readonly handle: number;
  readonly numTokens: number;
  readonly local: number;
  readonly version: number;
  /** Every such group has all blocks from the local prefix up to this token. */
  readonly end: number;
}

const NOTHING_FOUND: Found = { handle: -1, numTokens: 0, local: 0, version: 0, end: 0 };

/**
 * Finds and loads blocks by their keys, for a model with KV cache groups. A match ends where every
 * group has whole blocks and all blocks that the request needs there. A group with a window
 * therefore needs only its last blocks, and a group of states needs one block.
 *
 * Invariant: `#offered` has the requests that got an offer and have not been admitted since.
 */
export class GroupHits {
  readonly #view: KvView;
  readonly #keys: BlockKeys;
  /** By handle: tokens of the local prefix when the request was last asked about. */
  readonly #offered = new Map<number, number>();
  #found = NOTHING_FOUND;

  constructor(view: KvView, keys: BlockKeys) {
    this.#view = view;
    this.#keys = keys;
  }

  /** Number of requests that got an offer. */
  get size(): number {
    return this.#offered.size;
  }

  /**
   * Returns the number of tokens behind the local prefix that can be loaded, and notes the offer.
   * @param version changes whenever content that `has` reported is gone or is being loaded. While
   * it stays the same, earlier findings are reused
   * @returns null if some wanted content is not known yet: ask again later
   */
  match(request: ConnectorRequest, local: number, has: HasKey, version: number): number | null {
    this.#offered.delete(request.handle);
    const end = this.longest(request, local, has, request.numTokens - 1, version);
    if (end === null || end <= local) return end === null ? null : 0;
    this.#offered.set(request.handle, local);
    return end - local;
  }

  /** Returns the blocks that an offered match fills. @param rows borrowed */
  toLoad(request: ConnectorRequest, rows: BlockLists, numExternal: number): GroupLoad {
    const local = this.#offered.get(request.handle) ?? 0;
    this.#offered.delete(request.handle);
    const needed = this.needed(request, local, local + numExternal);
    return {
      keys: needed.map(({ key }) => key),
      blocks: Int32Array.from(needed, ({ group, place }) => rows[group][place]),
    };
  }

  /**
   * Returns the blocks that a request needs to resume behind `end` tokens, besides its local
   * prefix. They are ordered by group.
   */
  needed(request: ConnectorRequest, local: number, end: number): Needed[] {
    const needed: Needed[] = [];
    for (const [group, { blockSize }] of this.#view.groups.entries()) {
      const range = this.#view.neededPlaces(group, end);
      for (let place = Math.max(range.first, local / blockSize); place < range.end; place++)
        needed.push({ group, place, key: this.#keys.of(request, place, group) });
    }
    return needed;
  }

  /**
   * Yields, segment by segment, the keys that a match longer than `beyond` tokens may need behind
   * `local` tokens.
   * @param most maximum length of a match
   */
  *wanted(
    request: ConnectorRequest,
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

  /** A request has ended, or its offer was withdrawn. */
  forget(handle: number): void {
    this.#offered.delete(handle);
  }

  /**
   * Returns the number of tokens after which a request can resume, at least `local`; null as in
   * `match`.
   * @param most maximum number of tokens to resume behind. The last token is always computed,
   * because sampling needs it
   * @param version as in `match`; absent = everything is looked up
   */
  longest(
    request: ConnectorRequest,
    local: number,
    has: HasKey,
    most: number,
    version?: number,
  ): number | null {
    const { alignment } = this.#view;
    if (local % alignment !== 0) return local;
    let end = this.#ofAll(request, local, has, down(most, alignment), version);
    while (end !== null && end > local) {
      const lacking = this.#lacking(request, local, end, has);
      if (lacking === null) return null;
      if (lacking < 0) return end;
      // Every shorter end behind the missing block needs that block too.
      end = down(lacking, alignment);
    }
    return end === null ? null : local;
  }

  /** Returns the number of tokens for which the groups that need all tokens have every block. */
  #ofAll(
    request: ConnectorRequest,
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

  /**
   * Returns the first token of a block that is missing for a match up to `end`; -1 = no block is
   * missing.
   */
  #lacking(request: ConnectorRequest, local: number, end: number, has: HasKey): number | null {
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

/**
 * Returns the blocks that a single group of full attention loads. They are the last blocks of the
 * request, behind the local prefix. The lists are borrowed.
 */
export function lastBlocks(
  view: KvView,
  request: ConnectorRequest,
  [row]: BlockLists,
  numTokens: number,
): GroupLoad {
  const first = row.length - numTokens / view.blockSize;
  const blocks = row.slice(first);
  return { keys: Array.from(blocks, (_, i) => view.blockHash(request, first + i)), blocks };
}

/** Whether some match can need a place. Matches end only where every group has whole blocks. */
export function isUseful(view: KvView, group: number, place: number): boolean {
  const end = (place + 1) * view.groups[group].blockSize;
  return view.neededPlaces(group, Math.ceil(end / view.alignment) * view.alignment).first <= place;
}

function down(tokens: number, alignment: number): number {
  return tokens - (tokens % alignment);
}
