import type { BoundedSet } from '../../../base/collections/bounded-set.js';
import type { KvView } from '../../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../../scheduler/request/connector-request.js';
import type { HasKey } from '../../base/group-hits.js';
import type { StoreThread } from '../client/store-thread.js';
import { Outcome } from '../stores/block-store.js';
import { blockKey } from './block-names.js';

/**
 * Number of blocks in one lookup. A longer prefix is looked up piece by piece, while all blocks are
 * found.
 */
const PIECE = 256;

/**
 * A block that a request with KV cache groups may need from the store. Blocks are looked up in the
 * order of the list.
 */
export interface Wanted {
  readonly key: bigint;
  /** Whether all later blocks are useless without this one. */
  readonly isNeeded: boolean;
}

/** The state of one request's lookup. */
interface Lookup {
  readonly request: ConnectorRequest;
  /**
   * Index of the request's first block that was looked up; with KV cache groups, the tokens of its
   * local prefix.
   */
  readonly from: number;
  /**
   * Index after the last block that can be looked up; with KV cache groups, the length of `wanted`.
   */
  readonly end: number;
  /** With KV cache groups: the keys to look up, and the keys that were found; else null. */
  readonly wanted: readonly Wanted[] | null;
  readonly found: Set<bigint>;
  /** Number of blocks from `from` on that every rank has in the store. */
  numFound: number;
  /** When a lookup that is not over counts as over. */
  readonly dueAt: number;
  isOver: boolean;
}

/** Options of a `Lookups`. */
export interface LookupParts {
  readonly view: KvView;
  readonly thread: StoreThread;
  readonly known: BoundedSet<bigint>;
  readonly numRanks: number;
  /** Returns the present prefix of all keys. */
  readonly space: () => string;
  readonly now: () => number;
  /** Maximum duration of a lookup, in milliseconds. */
  readonly budgetMs: number;
}

/**
 * Asks the store how many blocks of a request's prefix it has, and never waits for the answer. A
 * lookup that exceeds its budget ends with the blocks found until then. A block counts if the store
 * has it for every rank.
 */
export class Lookups {
  readonly #parts: LookupParts;
  readonly #lookups = new Map<number, Lookup>();
  /** By handle: lookups that are not over, the oldest first, which is also due first. */
  readonly #asking = new Map<number, Lookup>();
  #numBegun = 0;
  #numLate = 0;

  constructor(parts: LookupParts) {
    this.#parts = parts;
  }

  /** Number of requests with a lookup. */
  get size(): number {
    return this.#lookups.size;
  }

  /** Number of lookups that are not over. */
  get numAsking(): number {
    return this.#asking.size;
  }

  /** Number of lookups so far, and the number that exceeded the budget. */
  get counts(): { readonly begun: number; readonly late: number } {
    return { begun: this.#numBegun, late: this.#numLate };
  }

  /**
   * Returns how many blocks of a request the store has, from block `first` on. Begins a lookup if
   * necessary.
   * @param end index after the last block of interest
   * @returns null: the answer is not known yet, and the request will be woken
   */
  ask(request: ConnectorRequest, first: number, end: number): number | null {
    const lookup = this.#lookups.get(request.handle);
    // The local prefix is at least as long as when the lookup began, unless blocks were evicted
    // meanwhile.
    if (lookup !== undefined && lookup.from <= first) {
      return lookup.isOver ? Math.max(0, Math.min(end, lookup.from + lookup.numFound) - first) : null;
    }
    return this.#begin(request, first, end, null) ? null : 0;
  }

  /**
   * Returns which keys of a request with KV cache groups the store has. Begins a lookup if
   * necessary.
   * @param local tokens of the request's local prefix
   * @returns `later`: the answer is not known yet, and the request will be woken
   */
  askGroups(
    request: ConnectorRequest,
    local: number,
    wanted: () => readonly Wanted[],
  ): HasKey | 'later' | 'nothing' {
    const lookup = this.#lookups.get(request.handle);
    if (lookup !== undefined && lookup.from <= local)
      return lookup.isOver ? (key) => lookup.found.has(key) : 'later';
    const keys = wanted();
    const begun = keys.length > 0 && this.#begin(request, local, keys.length, keys);
    return begun ? 'later' : 'nothing';
  }

  /** @returns false if the store is down */
  #begin(request: ConnectorRequest, from: number, end: number, wanted: readonly Wanted[] | null): boolean {
    this.drop(request.handle);
    const { thread, now, budgetMs } = this.#parts;
    if (!thread.accepts) return false;
    this.#numBegun++;
    const begun: Lookup = {
      ...{ request, from, end, wanted, found: new Set() },
      ...{ numFound: 0, dueAt: now() + budgetMs, isOver: false },
    };
    this.#lookups.set(request.handle, begun);
    this.#asking.set(request.handle, begun);
    this.#askNext(begun);
    return true;
  }

  /** Forgets the lookup of a request that has ended, or whose blocks were allocated. */
  drop(handle: number): void {
    this.#lookups.delete(handle);
    this.#asking.delete(handle);
  }

  /** Ends the lookups that took too long. Answers are taken when the thread is drained. */
  expire(): void {
    if (this.#asking.size === 0) return;
    const now = this.#parts.now();
    for (const lookup of this.#asking.values()) {
      if (lookup.dueAt > now) return;
      this.#numLate++;
      this.#end(lookup);
    }
  }

  #askNext(lookup: Lookup): void {
    const { view, thread, numRanks, space } = this.#parts;
    const { request, from, end, numFound, wanted } = lookup;
    const first = wanted === null ? from + numFound : numFound;
    const hashes: bigint[] = [];
    for (let index = first; index < Math.min(end, first + PIECE); index++)
      hashes.push(wanted?.[index].key ?? view.blockHash(request, index));
    const keys: string[] = [];
    const prefix = space();
    for (const hash of hashes)
      for (let rank = 0; rank < numRanks; rank++) keys.push(blockKey(prefix, 0, rank, hash));
    thread.has(keys, (outcomes) => {
      // A dropped request has ended, or is asked about again.
      if (!lookup.isOver && this.#lookups.get(request.handle) === lookup)
        this.#apply(lookup, hashes, outcomes);
    });
  }

  #apply(lookup: Lookup, hashes: readonly bigint[], outcomes: Uint8Array): void {
    const { known, numRanks } = this.#parts;
    if (lookup.wanted !== null) {
      this.#applyGroups(lookup, lookup.wanted, hashes, outcomes);
      return;
    }
    let count = 0;
    while (count < hashes.length && isThere(outcomes, count, numRanks)) known.add(hashes[count++]);
    // If one block is missing, assume the rest are too. The next request that computes them stores
    // them again.
    for (let i = count; i < hashes.length; i++) if (isMissing(outcomes, i, numRanks)) known.delete(hashes[i]);
    lookup.numFound += count;
    const isAll = lookup.from + lookup.numFound >= lookup.end;
    if (count < hashes.length || isAll) this.#end(lookup);
    else this.#askNext(lookup);
  }

  #applyGroups(
    lookup: Lookup,
    wanted: readonly Wanted[],
    keys: readonly bigint[],
    outcomes: Uint8Array,
  ): void {
    const { known, numRanks } = this.#parts;
    let isLost = false;
    for (const [i, key] of keys.entries()) {
      const isFound = isThere(outcomes, i, numRanks);
      if (isFound) known.add(key);
      else if (isMissing(outcomes, i, numRanks)) known.delete(key);
      if (isFound && !isLost) lookup.found.add(key);
      if (!isFound && wanted[lookup.numFound + i].isNeeded) isLost = true;
    }
    lookup.numFound += keys.length;
    if (isLost || lookup.numFound >= lookup.end) this.#end(lookup);
    else this.#askNext(lookup);
  }

  #end(lookup: Lookup): void {
    const { handle } = lookup.request;
    lookup.isOver = true;
    this.#asking.delete(handle);
    this.#parts.view.wake(handle);
  }
}

/** Whether every rank has its part of the block. */
function isThere(outcomes: Uint8Array, index: number, numRanks: number): boolean {
  for (let rank = 0; rank < numRanks; rank++)
    if (outcomes[index * numRanks + rank] !== Outcome.done) return false;
  return true;
}

/** Whether the store reports some rank's part as missing. */
function isMissing(outcomes: Uint8Array, index: number, numRanks: number): boolean {
  return outcomes.subarray(index * numRanks, (index + 1) * numRanks).includes(Outcome.missing);
}
