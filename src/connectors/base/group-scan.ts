import type { BlockPins } from '../../scheduler/connector/connector.js';
import type { BlockLists, ConnectorPlan, KvView } from '../../scheduler/connector/kv-view.js';
import { skippedTokens } from '../../scheduler/connector/view-group.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import type { BlockKeys } from './block-keys.js';
import { isUseful, needsAll } from './group-hits.js';

/** A block that the request releases before its KV is settled. It is pinned until then. */
interface Ahead {
  readonly group: number;
  readonly place: number;
  readonly block: number;
}

/** The blocks of this kind of one request. */
interface AheadOf {
  readonly slot: number;
  blocks: Ahead[];
}

/** Options of a `GroupScan`. */
export interface GroupScanOptions {
  readonly view: KvView;
  readonly keys: BlockKeys;
  readonly pins: BlockPins;
  /** Offers a settled block for storing. @returns false if there is no room now: ask again later */
  readonly offer: (key: bigint, block: number) => boolean;
  /** Returns how many more blocks may be pinned, besides the offered ones. */
  readonly room: () => number;
}

/**
 * Tracks which settled blocks of requests with KV cache groups were examined. It offers the blocks
 * of a request that a later match can need.
 *
 * A group with a window may release a block in the step after the step that fills it. At that time
 * the block's KV is not settled yet. Such blocks are pinned when they are planned, if the longest
 * match up to there needs them.
 *
 * Invariant: each block in `#ahead` has one pin, and its request has not released its blocks since.
 */
export class GroupScan {
  readonly #options: GroupScanOptions;
  /** By slot and group: the first place that was not examined. */
  #next: Int32Array = new Int32Array(64);
  /** By slot: the number of tokens from which on the request has a new place to examine. */
  #nextAt: Int32Array = new Int32Array(8);
  /** By handle. */
  readonly #ahead = new Map<number, AheadOf>();
  #numAhead = 0;
  /** Groups that release blocks while a request runs. */
  readonly #leaving: readonly number[];

  constructor(options: GroupScanOptions) {
    this.#options = options;
    const { groups } = options.view;
    this.#leaving = [...groups.keys()].filter((g) => !needsAll(groups[g]));
  }

  /** Number of blocks that are pinned because their request will release them. */
  get numAhead(): number {
    return this.#numAhead;
  }

  track({ slot }: ConnectorRequest): void {
    const { groups } = this.#options.view;
    this.#next = roomFor(this.#next, (slot + 1) * groups.length);
    this.#nextAt = roomFor(this.#nextAt, slot + 1);
    this.#next.fill(0, slot * groups.length, (slot + 1) * groups.length);
    this.#nextAt[slot] = Math.min(...groups.map(({ blockSize }) => blockSize));
  }

  /** These requests have released their blocks. Their blocks in flight count no more. */
  release(handles: readonly number[]): void {
    for (const handle of handles) this.#letGo(handle);
  }

  /** Examines the requests of a plan. */
  observe(plan: ConnectorPlan): void {
    const { view } = this.#options;
    for (let i = 0; i < plan.numRequests; i++) {
      const request = plan.requests[i];
      if (plan.numComputedTokens[i] >= this.#nextAt[request.slot])
        this.collect(request, view.extent(request).numSettledTokens, null);
      this.#pinAhead(request, plan.numComputedTokens[i] + plan.numScheduledTokens[i]);
    }
  }

  /** Offers the settled blocks of a request. @param own its rows; null = its current rows */
  collect(request: ConnectorRequest, numSettledTokens: number, own: BlockLists | null): void {
    const { view, keys, offer } = this.#options;
    const { groups } = view;
    let rows = own;
    let nextAt = Number.POSITIVE_INFINITY;
    for (const [g, { blockSize }] of groups.entries()) {
      const at = request.slot * groups.length + g;
      const end = Math.floor(numSettledTokens / blockSize);
      for (; this.#next[at] < end; this.#next[at]++) {
        const place = this.#next[at];
        if (!isUseful(view, g, place)) continue;
        rows ??= view.blocks(request);
        const block = rows[g][place] || this.#pinned(request.handle, g, place);
        if (block !== 0 && !offer(keys.of(request, place, g), block)) break;
      }
      nextAt = Math.min(nextAt, (this.#next[at] + 1) * blockSize);
    }
    this.#nextAt[request.slot] = nextAt;
  }

  /**
   * A request has ended. Blocks that were not offered until now are never stored. @returns number
   * of its blocks that were never examined
   */
  finish({ handle, slot }: ConnectorRequest, numSettledTokens: number): number {
    this.#letGo(handle);
    const { view } = this.#options;
    let numLeft = 0;
    for (const [g, { blockSize }] of view.groups.entries()) {
      const end = Math.floor(numSettledTokens / blockSize);
      for (let place = this.#next[slot * view.groups.length + g]; place < end; place++)
        if (isUseful(view, g, place)) numLeft++;
    }
    return numLeft;
  }

  /** The KV of these blocks is gone. Their content in flight is never offered. */
  lose(blocks: readonly number[]): void {
    for (const [handle, ahead] of this.#ahead)
      this.#unpin(handle, ahead, ({ block }) => blocks.includes(block));
  }

  /** Unpins blocks whose KV was settled. Call it after the offered blocks were pinned. */
  settle(): void {
    const numGroups = this.#options.view.groups.length;
    for (const [handle, ahead] of this.#ahead)
      this.#unpin(handle, ahead, ({ group, place }) => this.#next[ahead.slot * numGroups + group] > place);
  }

  /**
   * Pins the blocks that a step up to `numTokens` releases before they are settled, if the longest
   * matches up to there need them.
   */
  #pinAhead(request: ConnectorRequest, numTokens: number): void {
    const { alignment } = this.#options.view;
    const end = numTokens - (numTokens % alignment);
    // A request that repeats exactly this text computes the last token itself, so it resumes one
    // block earlier.
    const repeated = end === numTokens ? Math.max(end - alignment, 0) : end;
    for (const g of this.#leaving) {
      const left = this.#firstKept(g, numTokens);
      if (left <= this.#firstKept(g, repeated)) continue;
      this.#pinFor(request, g, end, left);
      if (repeated < end) this.#pinFor(request, g, repeated, left);
    }
  }

  /** Returns the first place that the token after `numTokens` tokens needs. */
  #firstKept(group: number, numTokens: number): number {
    const { groups } = this.#options.view;
    return Math.floor(skippedTokens(groups[group], numTokens) / groups[group].blockSize);
  }

  /** Pins the places before `left` that a request resuming behind `end` tokens needs. */
  #pinFor(request: ConnectorRequest, group: number, end: number, left: number): void {
    const { view, pins, room } = this.#options;
    const { handle, slot } = request;
    const needed = view.neededPlaces(group, end);
    const first = Math.max(needed.first, this.#next[slot * view.groups.length + group]);
    if (first >= Math.min(needed.end, left)) return;
    const row = view.blocks(request)[group];
    for (let place = first; place < Math.min(needed.end, left); place++) {
      const block = row[place];
      if (block === 0 || room() <= this.#numAhead || this.#pinned(handle, group, place) !== 0) continue;
      pins.pin(Int32Array.of(block));
      this.#numAhead++;
      const ahead = this.#ahead.get(handle);
      if (ahead === undefined) this.#ahead.set(handle, { slot, blocks: [{ group, place, block }] });
      else ahead.blocks.push({ group, place, block });
    }
  }

  #pinned(handle: number, group: number, place: number): number {
    const ahead = this.#ahead.get(handle);
    return ahead?.blocks.find((each) => each.group === group && each.place === place)?.block ?? 0;
  }

  #letGo(handle: number): void {
    const ahead = this.#ahead.get(handle);
    if (ahead !== undefined) this.#unpin(handle, ahead, () => true);
  }

  #unpin(handle: number, ahead: AheadOf, isOver: (block: Ahead) => boolean): void {
    if (!ahead.blocks.some(isOver)) return;
    const over = ahead.blocks.filter(isOver);
    this.#options.pins.unpin(Int32Array.from(over, ({ block }) => block));
    this.#numAhead -= over.length;
    ahead.blocks = ahead.blocks.filter((each) => !over.includes(each));
    if (ahead.blocks.length === 0) this.#ahead.delete(handle);
  }
}

function roomFor(array: Int32Array, length: number): Int32Array {
  if (length <= array.length) return array;
  const larger = new Int32Array(2 * length);
  larger.set(array);
  return larger;
}
