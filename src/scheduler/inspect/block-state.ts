/** What a block of the pool is, as `readBlockStates` says it: a byte each. Of blocks in use a larger number is a graver state. */
export const BlockState = {
  /** In the free queue, without a hash. */
  free: 0,
  /** In the free queue, and still holding a prefix that a request can find. */
  cached: 1,
  /** Held by a request. */
  used: 2,
  /** A transfer or a lease uses it: its connector pinned it, or a use of a request that holds it is not over. */
  transfer: 3,
  /** Held by a finished request for a use that nobody waits for any more. */
  quarantined: 4,
  /** Block 0, the null block, which no request ever gets, and the blocks that sinks hold for good. */
  reserved: 5,
} as const;

/** How many states there are. */
export const NUM_BLOCK_STATES = 6;
