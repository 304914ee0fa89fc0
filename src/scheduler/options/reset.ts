/** What a reset of the prefix cache did. */
export interface ResetResult {
  /** Every tier that was asked for has forgotten everything: the local cache, and with `resetConnector` the connector's. */
  ok: boolean;
  /** Every hash is gone. False: blocks are still in use, by requests or by transfers, and nothing was forgotten. */
  local: boolean;
  /**
   * What the connector's tier did; false: transfers are pending and it kept its content, or it failed. Null: it was not
   * asked, because that was not asked for or the local cache was not reset, or it has nothing to reset.
   */
  connector: boolean | null;
  /** External ids of the requests that hold blocks, when `local` is false. */
  blockers: string[];
  /** Blocks that the connector has pinned, when `local` is false: they are in use too. */
  pinnedBlocks: number;
  /** External ids of the running requests that were preempted, in order. */
  preempted: string[];
  /** External ids of the sessions that did not run and whose blocks were taken back. */
  reclaimed: string[];
}

/** What to reset besides what lies in the pool unused. */
export interface ResetOptions {
  /** Running requests too: they are computed again. Default false. */
  resetRunning?: boolean;
  /** The connector's tier too. Default false. */
  resetConnector?: boolean;
}
