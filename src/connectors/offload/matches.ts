import type { BlockLists, KvView } from '../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import type { BlockKeys } from '../base/block-keys.js';
import { GroupHits, type GroupLoad, lastBlocks } from '../base/group-hits.js';
import type { DiskBlocks } from './tiers/disk-blocks.js';
import type { IncomingBlocks } from './tiers/incoming-blocks.js';
import type { Wish } from './tiers/promotions.js';
import { ABSENT, type TierIndex } from './tiers/tier-index.js';

/** Options of a `Matches`. */
export interface MatchesOptions {
  readonly view: KvView;
  readonly keys: BlockKeys;
  readonly index: TierIndex;
  readonly incoming: IncomingBlocks;
  /** Null without a disk tier. */
  readonly disk: DiskBlocks | null;
}

/**
 * Finds the blocks of a request in the tiers. The host tier has some tokens behind the local
 * prefix. If it lacks more, the disk is asked, and the request waits until the disk's blocks are in
 * the host tier.
 */
export class Matches {
  readonly #options: MatchesOptions;
  /** With KV cache groups: finds the matches and the blocks to load. */
  readonly #groups: GroupHits | null;
  /** The last lookup. Requests that wait for room are asked about in every step. */
  readonly #last = { handle: -1, numTokens: 0, first: 0, next: 0, changes: -1 };
  /** Number of times that a load began or ended, or that the tier was emptied. */
  #changes = 0;

  constructor(options: MatchesOptions) {
    this.#options = options;
    const { view, keys } = options;
    this.#groups = view.layout === '' ? null : new GroupHits(view, keys);
  }

  /** A load has begun or ended, or the tier was emptied. Earlier lookups are no longer valid. */
  changed(): void {
    this.#changes++;
  }

  /**
   * Returns the number of tokens behind the local prefix that the host tier has. Null: the request
   * must wait, and will be woken.
   */
  find(request: ConnectorRequest, numLocalTokens: number): number | null {
    if (this.#groups !== null) return this.#findGroups(this.#groups, request, numLocalTokens);
    const { view, index, incoming } = this.#options;
    const { blockSize } = view;
    const { handle, numTokens } = request;
    const first = numLocalTokens / blockSize;
    // The last token is always computed, because sampling needs it.
    const end = Math.floor((numTokens - 1) / blockSize);
    let next = this.#known(request, first);
    for (; next < end; next++) {
      const key = view.blockHash(request, next);
      if (incoming.awaits(handle, key)) return null;
      if (index.get(key) === ABSENT) break;
    }
    if (next < end && this.#asksDisk(request, first, next, end)) return null;
    Object.assign(this.#last, { handle, numTokens, first, next, changes: this.#version });
    return (next - first) * blockSize;
  }

  /**
   * Yields the keys of all blocks that the longest match of a request may need, including blocks it
   * already has.
   */
  *wanted(request: ConnectorRequest): Generator<bigint> {
    const { view } = this.#options;
    const most = request.numTokens - 1;
    if (this.#groups !== null) for (const { key } of this.#groups.wanted(request, 0, most)) yield key;
    else for (let i = 0; i < Math.floor(most / view.blockSize); i++) yield view.blockHash(request, i);
  }

  /** The blocks that a match fills. @param rows borrowed */
  toLoad(request: ConnectorRequest, rows: BlockLists, numExternalTokens: number): GroupLoad {
    return this.#groups === null
      ? lastBlocks(this.#options.view, request, rows, numExternalTokens)
      : this.#groups.toLoad(request, rows, numExternalTokens);
  }

  /** Number of requests with kept state, until they are admitted or end. */
  get tracked(): number {
    return this.#groups?.size ?? 0;
  }

  /** A request has ended. */
  forget(handle: number): void {
    this.#groups?.forget(handle);
  }

  /**
   * Changes whenever a lookup may find less than before. A taken place may drop content that
   * another request was offered.
   */
  get #version(): number {
    return this.#changes + this.#options.index.numEvictions;
  }

  #findGroups(groups: GroupHits, request: ConnectorRequest, local: number): number | null {
    const { index, incoming } = this.#options;
    const { handle } = request;
    const has = (key: bigint): boolean | null =>
      incoming.awaits(handle, key) ? null : index.get(key) !== ABSENT;
    const count = groups.match(request, local, has, this.#version);
    if (count === null || !this.#asksDiskOfGroups(groups, request, local, local + count)) return count;
    // The request gets no offer after all.
    groups.forget(handle);
    return null;
  }

  /** Whether a request must wait for blocks from the disk, behind the blocks of the host tier. */
  #asksDisk(request: ConnectorRequest, first: number, next: number, end: number): boolean {
    const { view, index, disk } = this.#options;
    if (disk === null) return false;
    const waits = disk.awaits(request.handle);
    if (waits === false) return false;
    // Blocks from the disk are useless without the blocks before them. These are touched so that
    // they are evicted last, also by the places of the read.
    for (let i = next - 1; i >= first; i--) index.touch(view.blockHash(request, i));
    if (waits === null && !disk.ask(request.handle, this.#wish(request, next, end, disk))) return false;
    return true;
  }

  /** @returns null if the disk has no block that would follow */
  #wish(request: ConnectorRequest, next: number, end: number, disk: DiskBlocks): Wish | null {
    const { view } = this.#options;
    const most = Math.min(end - next, disk.mostBlocks);
    const keys: bigint[] = [];
    for (let i = 0; i < most; i++) {
      const key = view.blockHash(request, next + i);
      if (!disk.mayHave(key)) break;
      keys.push(key);
    }
    const choose: Wish['choose'] = (found, room) => {
      const missing = keys.findIndex((key) => !found(key));
      return keys.slice(0, Math.min(room, missing < 0 ? keys.length : missing));
    };
    return keys.length === 0 ? null : { keys, numTokens: keys.length * view.blockSize, choose };
  }

  /**
   * Like `#asksDisk`, with KV cache groups. The blocks that windows and states need depend on the
   * end of the match. The disk is therefore asked for all blocks that a match longer than the host
   * tier's may need. Of its blocks, only those of the longest match are read.
   * @param end tokens of the match that the host tier has
   */
  #asksDiskOfGroups(groups: GroupHits, request: ConnectorRequest, local: number, end: number): boolean {
    const { view, index, disk } = this.#options;
    const { alignment, acceptsLoads } = view;
    // Each segment needs a block of some group. This limits the length of a match to the room for
    // its blocks.
    const most = Math.min(request.numTokens - 1, end + alignment * (disk?.mostBlocks ?? 0));
    if (disk === null || !acceptsLoads || end + alignment > most) return false;
    const waits = disk.awaits(request.handle);
    if (waits !== null) return waits;
    const wanted = [...groups.wanted(request, local, most, end)].map(({ key }) => key);
    const keys = wanted.filter((key) => index.get(key) === ABSENT);
    return disk.ask(request.handle, {
      keys,
      numTokens: most - end,
      choose: (found, room) => this.#choose(groups, request, { local, end, most }, found, room),
    });
  }

  /** Chooses the blocks to read for the longest match of both tiers that there is room for. */
  #choose(
    groups: GroupHits,
    request: ConnectorRequest,
    { local, end, most }: { local: number; end: number; most: number },
    found: (key: bigint) => boolean,
    room: number,
  ): readonly bigint[] {
    const { view, index } = this.#options;
    const isThere = (key: bigint): boolean => index.get(key) !== ABSENT;
    const has = (key: bigint): boolean => isThere(key) || found(key);
    let limit = most;
    while (limit > end) {
      const longest = groups.longest(request, local, has, limit) ?? end;
      const keys = groups.needed(request, local, longest).map(({ key }) => key);
      const lacking = keys.filter((key) => !isThere(key));
      if (lacking.length <= room) {
        // Blocks from the disk are useless without the blocks before them.
        for (const key of keys.reverse()) index.touch(key);
        return lacking;
      }
      const half = Math.floor((longest - end) / 2);
      limit = end + half - (half % view.alignment);
    }
    return [];
  }

  /**
   * How far the last lookup came, if it is still valid: it was of the same request and prefix, and
   * no content was dropped.
   */
  #known({ handle, numTokens }: ConnectorRequest, first: number): number {
    const last = this.#last;
    const isSame = handle === last.handle && numTokens === last.numTokens && first === last.first;
    return isSame && last.changes === this.#version ? last.next : first;
  }
}
