/** The outcome of a reset of the prefix cache. */
export interface ResetResult {
  /**
   * True: every cache that was to be reset is empty: the local one, and with `resetConnector` the
   * connector's tier.
   */
  ok: boolean;
  /**
   * True: every local hash is gone. False: blocks are still in use, by requests or by transfers, and nothing was
   * forgotten.
   */
  local: boolean;
  /**
   * The state of the connector's tier. True: it is empty. False: it kept its content because
   * transfers are pending, or it failed. Null: there is nothing to reset, or the tier was not
   * asked, because `resetConnector` was not given or the local cache was not reset.
   */
  connector: boolean | null;
  /**
   * External ids of the requests that hold blocks, or dropped blocks that a step in flight may
   * write, when `local` is false.
   */
  blockers: string[];
  /** Blocks that the connector has pinned, when `local` is false. Pinned blocks are in use too. */
  pinnedBlocks: number;
  /** External ids of the running requests that were preempted, in order. */
  preempted: string[];
  /** External ids of the sessions that were not running and whose blocks were taken back. */
  reclaimed: string[];
}

/** The scope of a reset, beyond cached blocks that are not in use. */
export interface ResetOptions {
  /** True: running requests are preempted, and computed again. Default false. */
  resetRunning?: boolean;
  /** True: the connector's tier is reset too. Default false. */
  resetConnector?: boolean;
}
