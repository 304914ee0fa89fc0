/** How it went for one key of a `has`, `get` or `put`. */
export const Outcome = {
  /** The key is there; its value was read; it was stored. */
  done: 1,
  /** There is nothing under the key. */
  missing: 2,
  /** What is under the key is not what was stored there: it is refused, and removed where that is possible. */
  corrupt: 3,
  /** The store has no room for it. */
  full: 4,
  /** The store did not do it: it is down, too slow, or refused it. */
  failed: 5,
} as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

/**
 * Keeps values of bytes under keys, outside of the engine. It is used on a thread of its own (`StoreThread`), so its
 * methods may take long, and block the thread while they read. A method that rejects means that the store is down; what
 * can be said of one key is said in that key's outcome.
 */
export interface BlockStore {
  /**
   * Which keys are there.
   * @returns one outcome for each key: `done` or `missing`
   */
  has(keys: readonly string[]): Promise<Uint8Array>;
  /**
   * Reads values.
   * @param visit called once for each key, in any order; `value` is null if there is nothing, and is valid during the
   * call only
   */
  get(keys: readonly string[], visit: (index: number, value: Uint8Array | null) => void): Promise<void>;
  /**
   * Stores values, in place of those that were there.
   * @param values as many as there are keys; they are not changed until the promise is settled
   * @returns one outcome for each key: `done`, `full` or `failed`
   */
  put(keys: readonly string[], values: readonly Uint8Array[]): Promise<Uint8Array>;
  /** Removes values; a key that is not there is no error. */
  remove(keys: readonly string[]): Promise<void>;
  /** Ends the store. What was put before is kept. */
  close(): Promise<void>;
}
