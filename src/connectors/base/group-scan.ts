import type { BlockPins } from '../../scheduler/connector/connector.js';
import type { BlockLists, KvView } from '../../scheduler/connector/kv-view.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { Request } from '../../scheduler/request/request.js';
import type { BlockKeys } from './block-keys.js';
import { isUseful } from './group-hits.js';

/** A block that will have been let go before its KV is settled. It is pinned until then. */
interface Ahead {
  readonly group: number;
  readonly place: number;
  readonly block: number;
}

/** What `GroupScan` is made of. */
export interface GroupScanOptions {
  readonly view: KvView;
  readonly keys: BlockKeys;
  readonly pins: BlockPins;
  /** Offers a settled block to be stored. @returns false: there is no room now, so ask again later */
  readonly offer: (key: bigint, block: number) => boolean;
  /** Most blocks that may be pinned besides those that were offered. */
  readonly room: () => number;
}

/**
 * Which settled blocks of requests with KV cache groups were looked at. What a request holds is offered, and of that only what some later
 * match can need.
 *
 * A window may leave a block in the step behind the one that fills it, before anybody knows that its KV is there. Blocks of that kind are pinned
 * when they are planned, as far as the longest match up to there needs them.
 *
 * Invariant: each block in `#ahead` has one pin; its request has not given its blocks back since.
 */
export class GroupScan {
  readonly #options: GroupScanOptions;
  /** By slot and group: the first place that was not looked at. */
  #next: Int32Array = new Int32Array(64);
  /** By slot: tokens from which on there is something to look at. */
  #nextAt: Int32Array = new Int32Array(8);
  readonly #ahead = new Map<number, Ahead[]>();
  #numAhead = 0;
  /** By handle: the slot of a request with blocks in `#ahead`. */
  readonly #slots = new Map<number, number>();

  constructor(options: GroupScanOptions) {
    this.#options = options;
  }

  /** Blocks that are pinned because they will be let go. */
  get numAhead(): number {
    return this.#numAhead;
  }

  track({ slot }: Request): void {
    const { groups } = this.#options.view;
    this.#next = roomFor(this.#next, (slot + 1) * groups.length);
    this.#nextAt = roomFor(this.#nextAt, slot + 1);
    this.#next.fill(0, slot * groups.length, (slot + 1) * groups.length);
    this.#nextAt[slot] = Math.min(...groups.map(({ blockSize }) => blockSize));
  }

  /** These requests have given their blocks back: what they have in flight counts no more. */
  release(handles: readonly number[]): void {
    for (const handle of handles) this.#letGo(handle);
  }

  /** Looks at the requests of a plan. */
  observe(plan: Plan): void {
    const { view } = this.#options;
    for (let i = 0; i < plan.numRequests; i++) {
      const request = plan.requests[i];
      if (plan.numComputedTokens[i] >= this.#nextAt[request.slot])
        this.collect(request, view.extent(request).numSettledTokens, null);
      this.#pinAhead(request, plan.numComputedTokens[i] + plan.numScheduledTokens[i]);
    }
  }

  /** Offers the settled blocks of a request. @param own its rows; null = those that it has now */
  collect(request: Request, numSettledTokens: number, own: BlockLists | null): void {
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

  /** A request has ended: what was not offered until now is not stored. @returns its blocks that were never looked at */
  finish({ handle, slot }: Request, numSettledTokens: number): number {
    this.#letGo(handle);
    const { groups } = this.#options.view;
    return groups.reduce((sum, { blockSize }, g) => {
      return (
        sum + Math.max(0, Math.floor(numSettledTokens / blockSize) - this.#next[slot * groups.length + g])
      );
    }, 0);
  }

  /** Takes the pins of blocks back whose KV was settled. Call it when what was offered is pinned. */
  settle(): void {
    for (const [handle, list] of this.#ahead) {
      const over = list.filter(({ group, place }) => this.#isOver(handle, group, place));
      if (over.length > 0) this.#unpin(handle, list, over);
    }
  }

  /** Pins what a step up to `numTokens` will let go before it is settled, as far as the longest matches up to there need it. */
  #pinAhead(request: Request, numTokens: number): void {
    const { alignment } = this.#options.view;
    const end = numTokens - (numTokens % alignment);
    this.#pinFor(request, end, numTokens);
    // Who repeats exactly this text computes its last token, and so resumes a block earlier.
    if (end === numTokens && end > alignment) this.#pinFor(request, end - alignment, numTokens);
  }

  /** Pins what is needed behind `end` tokens and will be let go behind `numTokens`. */
  #pinFor(request: Request, end: number, numTokens: number): void {
    const { view, pins, room } = this.#options;
    const { groups } = view;
    let rows: BlockLists | null = null;
    for (let g = 0; g < groups.length; g++) {
      const needed = view.neededPlaces(g, end);
      const until = Math.min(needed.end, view.neededPlaces(g, numTokens).first);
      const next = this.#next[request.slot * groups.length + g];
      for (let place = Math.max(needed.first, next); place < until; place++) {
        rows ??= view.blocks(request);
        const block = rows[g][place];
        if (block === 0 || room() <= this.#numAhead || this.#pinned(request.handle, g, place) !== 0) continue;
        pins.pin(Int32Array.of(block));
        this.#numAhead++;
        this.#slots.set(request.handle, request.slot);
        const list = this.#ahead.get(request.handle);
        if (list === undefined) this.#ahead.set(request.handle, [{ group: g, place, block }]);
        else list.push({ group: g, place, block });
      }
    }
  }

  #isOver(handle: number, group: number, place: number): boolean {
    const slot = this.#slots.get(handle) ?? 0;
    return this.#next[slot * this.#options.view.groups.length + group] > place;
  }

  #pinned(handle: number, group: number, place: number): number {
    const found = this.#ahead.get(handle)?.find((each) => each.group === group && each.place === place);
    return found?.block ?? 0;
  }

  #letGo(handle: number): void {
    const list = this.#ahead.get(handle);
    if (list !== undefined) this.#unpin(handle, list, list);
  }

  #unpin(handle: number, list: readonly Ahead[], over: readonly Ahead[]): void {
    this.#options.pins.unpin(Int32Array.from(over, ({ block }) => block));
    this.#numAhead -= over.length;
    const left = list.filter((each) => !over.includes(each));
    if (left.length > 0) this.#ahead.set(handle, left);
    else {
      this.#ahead.delete(handle);
      this.#slots.delete(handle);
    }
  }
}

function roomFor(array: Int32Array, length: number): Int32Array {
  if (length <= array.length) return array;
  const larger = new Int32Array(2 * length);
  larger.set(array);
  return larger;
}
