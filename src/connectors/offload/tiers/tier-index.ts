/** Number of places of a tier in each state. The four counts add up to all places. */
export interface TierCounts {
  /** Places without content. */
  readonly free: number;
  /** Places with content that is not being copied. They can be evicted. */
  readonly idle: number;
  /** Places whose content is being copied elsewhere, whether or not it can still be found. */
  readonly used: number;
  /** Places that are being filled. */
  readonly filling: number;
}

/** The answer for a key without a place. */
export const ABSENT = -1;

const State = { free: 0, idle: 1, used: 2, filling: 3 } as const;

/**
 * The content of each place of a tier, and the order of eviction: least recently used first. The
 * index knows keys and places, and never touches memory.
 *
 * A place is taken (`take`), filled by its taker, and then found under its key (`put`). While the
 * content is being copied (from `use` to `release`), the place is never given away, even if the key
 * was dropped meanwhile.
 *
 * Invariants: each place is free, idle, used or filling. The list of the idle places runs from the
 * least recently used one to the most recently used one. A key that can be found stands for an idle
 * or used place.
 */
export class TierIndex {
  /** Places of the tier; their numbers are 0 to numPlaces - 1. */
  readonly numPlaces: number;
  /** Number of contents that were dropped to make room. */
  numEvictions = 0;
  readonly #places = new Map<bigint, number>();
  /** By place: the key of its content; undefined if there is no content or it was dropped. */
  readonly #keys: (bigint | undefined)[];
  readonly #state: Uint8Array;
  /** By place: number of copies that read it. */
  readonly #users: Uint32Array;
  /** The idle places as a ring, least recently used first; `numPlaces` is its head. */
  readonly #before: Int32Array;
  readonly #after: Int32Array;
  readonly #free: Int32Array;
  readonly #counts = new Int32Array(4);

  readonly #told: (change: 'stored' | 'removed', key: bigint) => void;

  /**
   * @param numPlaces 1 to 2^24
   * @param told called with every key that can be found from now on, or no longer
   */
  constructor(numPlaces: number, told: (change: 'stored' | 'removed', key: bigint) => void = () => {}) {
    this.#told = told;
    this.numPlaces = numPlaces;
    this.#keys = new Array<bigint | undefined>(numPlaces).fill(undefined);
    this.#state = new Uint8Array(numPlaces);
    this.#users = new Uint32Array(numPlaces);
    this.#before = new Int32Array(numPlaces + 1).fill(numPlaces);
    this.#after = new Int32Array(numPlaces + 1).fill(numPlaces);
    // The place with the lowest number is taken first.
    this.#free = Int32Array.from({ length: numPlaces }, (_, i) => numPlaces - 1 - i);
    this.#counts[State.free] = numPlaces;
  }

  /** Number of keys that can be found. */
  get size(): number {
    return this.#places.size;
  }

  /** Returns the place of a key; `ABSENT` if there is none. The call does not count as a use. */
  get(key: bigint): number {
    return this.#places.get(key) ?? ABSENT;
  }

  /**
   * Takes a place to fill: a free one, or else the least recently used idle one, whose content is
   * dropped. `ABSENT` = none.
   */
  take(): number {
    const { numPlaces } = this;
    let place: number;
    if (this.#counts[State.free] > 0) {
      place = this.#free[this.#counts[State.free] - 1];
    } else {
      place = this.#after[numPlaces];
      if (place === numPlaces) return ABSENT;
      this.numEvictions++;
      this.#forget(place);
      this.#unlink(place);
    }
    this.#set(place, State.filling);
    return place;
  }

  /**
   * A taken place was filled. Its content can be found, as the most recently used. A key that is
   * there already keeps its place.
   */
  put(key: bigint, place: number): void {
    if (this.#places.has(key)) {
      this.giveBack(place);
      return;
    }
    this.#places.set(key, place);
    this.#keys[place] = key;
    this.#set(place, State.idle);
    this.#append(place);
    this.#told('stored', key);
  }

  /** The content of a key will be needed soon, so it becomes the most recently used. */
  touch(key: bigint): void {
    const place = this.get(key);
    if (place === ABSENT || this.#state[place] !== State.idle) return;
    this.#unlink(place);
    this.#append(place);
  }

  /** A taken place was not filled: it is free again. */
  giveBack(place: number): void {
    this.#setFree(place);
  }

  /** A copy of a place's content begins. */
  use(place: number): void {
    if (this.#users[place]++ > 0) return;
    this.#unlink(place);
    this.#set(place, State.used);
  }

  /**
   * A copy is over. The content becomes the most recently used; content that was dropped meanwhile
   * frees its place.
   */
  release(place: number): void {
    if (--this.#users[place] > 0) return;
    if (this.#keys[place] === undefined) {
      this.#setFree(place);
      return;
    }
    this.#set(place, State.idle);
    this.#append(place);
  }

  /** Drops the content of a key. Its place is freed when no copy uses it. */
  drop(key: bigint): void {
    const place = this.get(key);
    if (place === ABSENT) return;
    this.#forget(place);
    if (this.#state[place] !== State.idle) return;
    this.#unlink(place);
    this.#setFree(place);
  }

  /** Drops all content. */
  clear(): void {
    for (const key of [...this.#places.keys()]) this.drop(key);
  }

  counts(): TierCounts {
    const [free, idle, used, filling] = this.#counts;
    return { free, idle, used, filling };
  }

  /** The keys of idle places, the least recently used first: the order of eviction. */
  *oldest(): Generator<bigint> {
    for (let at = this.#after[this.numPlaces]; at !== this.numPlaces; at = this.#after[at])
      yield this.#keys[at] as bigint;
  }

  #forget(place: number): void {
    const key = this.#keys[place];
    this.#keys[place] = undefined;
    if (key === undefined) return;
    this.#places.delete(key);
    this.#told('removed', key);
  }

  #set(place: number, state: number): void {
    this.#counts[this.#state[place]]--;
    this.#counts[state]++;
    this.#state[place] = state;
  }

  #setFree(place: number): void {
    this.#free[this.#counts[State.free]] = place;
    this.#set(place, State.free);
  }

  #append(place: number): void {
    const head = this.numPlaces;
    const last = this.#before[head];
    this.#before[place] = last;
    this.#after[place] = head;
    this.#after[last] = place;
    this.#before[head] = place;
  }

  #unlink(place: number): void {
    const [before, after] = [this.#before[place], this.#after[place]];
    this.#after[before] = after;
    this.#before[after] = before;
  }
}
