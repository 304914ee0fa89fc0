/** The result for one key of a `has`, `get` or `put`. */
export const Outcome = {
  /** `has`: the key is there. `get`: its value was read. `put`: the value was stored. */
  done: 1,
  /** The key is not there. */
  missing: 2,
  /** The value under the key is not the stored value. It is refused, and removed if possible. */
  corrupt: 3,
  /** The store has no room for the value. */
  full: 4,
  /** The store did not do it: it is down, too slow, or refused. */
  failed: 5,
} as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

/**
 * Takes a value that was read. `index` is the index of its key in the list of a `get`; null means
 * that the key is not there.
 */
export type Visit = (index: number, value: Uint8Array | null) => void;

/**
 * Keeps byte values under keys, outside the engine. A user's own store implements this interface;
 * see `OwnStoreOptions`.
 *
 * - **Keys** have 1 to 120 characters: letters, digits, and `.`, `_`, `-`, `:`. Equal keys mean
 *   equal content, in every engine and forever. A value may therefore be stored again at any time,
 *   and it does not matter which one stays.
 * - **Values** of one engine all have one size: the bytes of a block on one rank, and 32 bytes of a
 *   seal with a checksum of key and content. A returned value that is damaged, truncated, or of
 *   another key counts as `corrupt`. A store may lose, forget and even mix up values; that costs
 *   only hits.
 * - **Errors.** A method that rejects or throws means that the store is down. The store is then
 *   left alone for a while. Errors of a single key belong in that key's outcome. An invalid answer
 *   (too short a list, an index that does not exist, an index twice) counts as a failure too. No
 *   error goes further than that.
 * - **Time.** Several calls are under way at once, at most two reads and two writes. `signal` is
 *   aborted when a call is given up because it was too slow, or because the engine has ended. The
 *   call's later actions change nothing, but it counts as under way until its promise is settled.
 */
export interface BlockStore {
  /**
   * Asks which keys are there, at most 1,024 of them.
   * @returns one outcome for each key: `done` or `missing`
   */
  has(keys: readonly string[], signal: AbortSignal): Promise<Uint8Array>;
  /**
   * Reads values: at most 8 MiB in total, or a single value.
   * @param visit called once for each key, in any order, before the promise is settled. The value
   * is copied during the call
   */
  get(keys: readonly string[], visit: Visit, signal: AbortSignal): Promise<void>;
  /**
   * Stores values and replaces existing ones: at most 8 MiB in total, or a single value.
   * @param values as many as keys. The store may keep them, because no other code uses them
   * @returns one outcome for each key: `done`, `full` or `failed`
   */
  put(keys: readonly string[], values: readonly Uint8Array[], signal: AbortSignal): Promise<Uint8Array>;
  /** Removes corrupt values. A missing key is no error. A store may ignore the call. */
  remove(keys: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Closes the store. Values that were put before are kept. It is not called while another call is
   * awaited.
   */
  close(): Promise<void>;
}
