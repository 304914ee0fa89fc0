import type { Verdict } from '../../../transfer/verdict.js';

/** A load of a request: the blocks that every rank reads from the store. */
export interface LoadOrder {
  readonly job: number;
  readonly handle: number;
  /**
   * Key of each block (`BlockKeys`); with one group, this is the hash. Keys are in the order of the
   * request's tokens, group by group.
   */
  readonly hashes: readonly bigint[];
  /** The target of each block in the KV memory. */
  readonly blocks: Int32Array;
}

/** Blocks that every rank stores. */
export interface StoreOrder {
  readonly job: number;
  readonly hashes: readonly bigint[];
  readonly blocks: Int32Array;
}

/** The scheduler side's message to the workers, sent with a plan. */
export interface StoreOrders {
  /** The common prefix of all keys. */
  readonly space: string;
  /** Bytes of a block in the connector's format. */
  readonly bytesPerBlock: number;
  readonly loads: readonly LoadOrder[];
  readonly store: StoreOrder | null;
}

/** A worker's message to the scheduler side. */
export interface StoreSaid {
  /** Jobs whose blocks were copied, or will never be copied. The blocks may be overwritten. */
  readonly copied: readonly { readonly job: number; readonly verdict: Verdict }[];
  /** Loads that are over, with the number of leading blocks that arrived. */
  readonly loaded: readonly { readonly job: number; readonly numGood: number }[];
  /** Hashes of blocks that were copied, but that the store did not take. */
  readonly unstored: readonly bigint[];
}
