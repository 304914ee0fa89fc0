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

/** Takes a value that was read: `index` is that of its key in the list of a `get`; null means that nothing is there. */
export type Visit = (index: number, value: Uint8Array | null) => void;

/**
 * Keeps values of bytes under keys, outside of the engine. A store of one's own is one of these; see `OwnStoreOptions`.
 *
 * - **Keys** have 1 to 120 characters: letters, digits, and `.`, `_`, `-`, `:`. Equal keys mean equal content, in every
 *   engine and for ever, so a value may be stored again at any time, and it does not matter which one stays.
 * - **Values** of one engine are all of one size: the bytes of a block on one rank, and 32 bytes of a seal, in which a
 *   checksum of key and content is. What comes back under a key and is damaged, cut off, or another key's, counts as
 *   `corrupt`. So a store may lose, forget and even mix up whatever it likes: that costs hits.
 * - **Errors.** What a method rejects with, or throws, means that the store is down: it is left alone for a while then.
 *   What can be said of one key is said in that key's outcome. An answer that is none (too short a list, an index that
 *   does not exist, an index twice) counts as a failure, too. No error goes further than that.
 * - **Time.** Several calls are under way at once, at most two that read and two that write. `signal` is aborted when
 *   nobody waits for a call any more: it was too slow, or the engine has ended. Whatever it does then changes nothing,
 *   but it counts as under way until its promise is settled.
 */
export interface BlockStore {
  /**
   * Which keys are there, at most 1,024 of them.
   * @returns one outcome for each key: `done` or `missing`
   */
  has(keys: readonly string[], signal: AbortSignal): Promise<Uint8Array>;
  /**
   * Reads values: at most 8 MiB of them, or one.
   * @param visit called once for each key, in any order, before the promise is settled; the value is copied in the call
   */
  get(keys: readonly string[], visit: Visit, signal: AbortSignal): Promise<void>;
  /**
   * Stores values, in place of those that were there: at most 8 MiB of them, or one.
   * @param values as many as there are keys. Nobody else uses them: the store may keep them
   * @returns one outcome for each key: `done`, `full` or `failed`
   */
  put(keys: readonly string[], values: readonly Uint8Array[], signal: AbortSignal): Promise<Uint8Array>;
  /** Removes values, which were corrupt; a key that is not there is no error. A store may ignore it. */
  remove(keys: readonly string[], signal: AbortSignal): Promise<void>;
  /** Ends the store. What was put before is kept. It is not called while another call is awaited. */
  close(): Promise<void>;
}
