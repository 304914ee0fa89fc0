/**
 * The state of a block of the pool, as one byte of `readBlockStates`. Among blocks in use, a larger
 * number is a graver state.
 */
export const BlockState = {
  /** In the free queue, without a hash. */
  free: 0,
  /** In the free queue, and still holding a prefix that a request can find. */
  cached: 1,
  /** Held by a request. */
  used: 2,
  /**
   * In use by a transfer or a lease: its connector pinned it, or a use of a request that holds it
   * is not over.
   */
  transfer: 3,
  /** Held by a finished request for a use whose end is no longer awaited. */
  quarantined: 4,
  /** Block 0, the null block, which no request ever gets, and the permanent blocks of sinks. */
  reserved: 5,
} as const;

/** The number of states. */
export const NUM_BLOCK_STATES = 6;
